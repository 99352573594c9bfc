# SPDX-License-Identifier: Apache-2.0
"""Facts are read where they stand, say where that is, and stay unknown when they cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.facts.detect import detect

POOLS = "/apis/projectcalico.org/v3/ippools"
INSTALLATION = "/apis/operator.tigera.io/v1/installations/default"
INFORMATION = "/apis/projectcalico.org/v3/clusterinformations/default"


def test_nodes_are_read_with_os_build_and_address(kube: Any, world: Any) -> None:
    world.node("lin", labels={"node-role.kubernetes.io/control-plane": ""})
    world.node(
        "win",
        "windows",
        "10.0.20348.2762",
        unschedulable=True,
        taints=[{"key": "os", "effect": "NoSchedule"}],
    )
    lin, win = detect(kube).nodes
    assert (lin.os, lin.control_plane, lin.windows_build, lin.address) == (
        "linux",
        True,
        None,
        "192.0.2.7",
    )
    assert (win.os, win.windows_build, win.schedulable, win.ready) == (
        "windows",
        (20348, 2762),
        False,
        True,
    )
    assert win.taints == ({"key": "os", "effect": "NoSchedule"},)


@pytest.mark.parametrize(
    "addresses", [["fd00::7"], ["fd00::7", "192.0.2.7"], ["192.0.2.7", "fd00::7"]]
)
def test_a_node_with_ipv6_addresses_has_the_one_that_the_cluster_names_first(
    kube: Any, world: Any, addresses: list[str]
) -> None:
    world.node("lin")
    listed = [{"type": "InternalIP", "address": address} for address in addresses]
    world.objects["/api/v1/nodes/lin"]["status"]["addresses"] = listed
    assert detect(kube).nodes[0].address == addresses[0]


def test_a_windows_build_without_its_revision_is_unknown(kube: Any, world: Any) -> None:
    world.node("win", "windows", "10.0.20348")
    assert detect(kube).nodes[0].windows_build is None


def test_a_node_that_lacks_parts_is_still_a_node(kube: Any, world: Any) -> None:
    world.put("/api/v1/nodes/bare", {})
    assert [(node.name, node.os, node.ready) for node in detect(kube).nodes] == [
        ("bare", "linux", False)
    ]


def test_an_operator_installation_with_vxlan_is_recognised(kube: Any, world: Any) -> None:
    world.node("win", "windows", "10.0.20348.1")
    world.put(INFORMATION, {"spec": {"calicoVersion": "v3.31.2"}})
    network = {"bgp": "Disabled", "windowsDataplane": "HNS"}
    world.put(INSTALLATION, {"spec": {"cni": {"type": "Calico"}, "calicoNetwork": network}})
    world.daemonset("calico-system/calico-node-windows", CALICO_NETWORKING_BACKEND="vxlan")
    facts = detect(kube)
    assert facts.calico_version.value == "v3.31.2"
    assert "projectcalico.org/v3" in facts.calico_version.source
    assert (facts.mode.value, facts.mode.source) == (
        "vxlan", "CALICO_NETWORKING_BACKEND=vxlan of DaemonSet calico-system/calico-node-windows",
    )  # fmt: skip
    assert (facts.install.value, facts.datastore.value, facts.cni.value) == (
        "operator",
        "kubernetes",
        "Calico",
    )
    assert facts.calico_apis.value == ("operator.tigera.io/v1", "projectcalico.org/v3")


@pytest.mark.parametrize(
    ("backend", "mode"), [("windows-bgp", "bgp"), ("none", "policy-only"), ("vxlan", "vxlan")]
)
def test_the_backend_on_windows_decides_the_mode(
    kube: Any, world: Any, backend: str, mode: str
) -> None:
    world.put(INSTALLATION, {"spec": {"calicoNetwork": {"bgp": "Enabled"}}})
    world.daemonset("kube-system/calico-node-windows", CALICO_NETWORKING_BACKEND=backend)
    assert detect(kube).mode.value == mode


def test_a_bgp_backend_over_vxlan_pools_is_mixed(kube: Any, world: Any) -> None:
    world.daemonset("kube-system/calico-node-windows", CALICO_NETWORKING_BACKEND="windows-bgp")
    world.put(f"{POOLS}/a", {"spec": {"cidr": "10.1.0.0/16", "vxlanMode": "Always"}})
    assert detect(kube).mode.value == "mixed"
    world.put(
        f"{POOLS}/a", {"spec": {"cidr": "10.1.0.0/16", "vxlanMode": "Always", "disabled": True}}
    )
    assert detect(kube).mode.value == "bgp"
    world.block("a", "10.1.4.0/26")
    assert detect(kube).mode.value == "mixed"  # pods still have addresses of it


def test_without_a_backend_the_installation_decides_then_the_pools(kube: Any, world: Any) -> None:
    for name, cidr in (("a", "10.1.0.0/16"), ("b", "10.2.0.0/16")):
        world.put(
            f"{POOLS}/{name}",
            {"spec": {"cidr": cidr, "vxlanMode": "Always" if name == "a" else "Never"}},
        )
    assert detect(kube).mode.value is None  # every start of Calico makes a pool
    world.block("a", "10.1.4.0/26")
    assert (detect(kube).mode.value, detect(kube).mode.source) == (
        "vxlan",
        "vxlanMode of IPPools with blocks",
    )
    world.block("b", "10.2.4.0/26")
    assert detect(kube).mode.value == "mixed"
    world.put(INSTALLATION, {"spec": {"cni": {"type": "AmazonVPC"}}})
    assert detect(kube).mode.value == "policy-only"


def test_a_backend_that_comes_from_a_config_map_is_followed(kube: Any, world: Any) -> None:
    reference = {"configMapKeyRef": {"name": "calico-config", "key": "calico_backend"}}
    container = {
        "name": "c",
        "env": [{"name": "CALICO_NETWORKING_BACKEND", "valueFrom": reference}],
    }
    path = "/apis/apps/v1/namespaces/kube-system/daemonsets/calico-node"
    world.put(path, {"spec": {"template": {"spec": {"containers": [container]}}}})
    world.put(
        "/api/v1/namespaces/kube-system/configmaps/calico-config",
        {"data": {"calico_backend": "vxlan"}},
    )
    assert detect(kube).mode.value == "vxlan"


def test_an_etcd_datastore_is_recognised(kube: Any, world: Any) -> None:
    world.daemonset(
        "kube-system/calico-node", image="docker.io/calico/node:v3.20.1", DATASTORE_TYPE="etcdv3"
    )
    facts = detect(kube)
    assert facts.datastore.value == "etcd"
    assert (facts.calico_version.value, facts.install.value) == ("v3.20.1", "manifest")


def test_a_windows_node_of_calico_without_a_daemonset_was_installed_by_hand(
    kube: Any, world: Any
) -> None:
    world.node(
        "win",
        "windows",
        "10.0.17763.1",
        annotations={"projectcalico.org/IPv4Address": "192.0.2.7/24"},
    )
    assert detect(kube).install.value == "manual"


def test_what_a_cloud_runs_on_linux_says_nothing_of_windows(kube: Any, world: Any) -> None:
    world.node("win", "windows", "10.0.20348.1")
    world.daemonset("kube-system/aws-node")
    world.daemonset("kube-system/azure-cns")
    assert detect(kube).cni.value is None
    amazon = "/api/v1/namespaces/kube-system/configmaps/amazon-vpc-cni"
    world.put(amazon, {"data": {"enable-windows-ipam": "false"}})
    assert detect(kube).cni.value is None
    world.put(amazon, {"data": {"enable-windows-ipam": "true"}})
    assert (detect(kube).cni.value, detect(kube).by_os("windows")[0].plane.value) == (
        "AmazonVPC",
        "l2bridge",
    )
    world.daemonset("kube-system/azure-cns-win")
    assert detect(kube).cni.value == "AzureVNET"
    world.node(
        "win",
        "windows",
        "10.0.20348.1",
        annotations={"projectcalico.org/IPv4VXLANTunnelAddr": "192.0.2.65"},
    )
    assert detect(kube).cni.value == "Calico"


def test_pods_networks_are_blocks_or_the_pod_cidr_and_none_of_a_cloud(
    kube: Any, world: Any
) -> None:
    world.node(
        "win",
        "windows",
        "10.0.20348.1",
        podCIDR="10.244.3.0/24",
        podCIDRs=["10.244.3.0/24", "fd00::/64"],
    )
    assert detect(kube).by_os("windows")[0].pod_networks == ("10.244.3.0/24", "fd00::/64")
    world.block("win", "10.1.4.0/26")
    assert detect(kube).by_os("windows")[0].pod_networks == ("10.1.4.0/26",)
    world.put(INSTALLATION, {"spec": {"cni": {"type": "AmazonVPC", "ipam": {"type": "AmazonVPC"}}}})
    assert detect(kube).by_os("windows")[0].pod_networks == ()


@pytest.mark.parametrize(
    ("told", "used"), [("vpc.*", "vpc.*"), (r"Calico\z[", "calico"), (None, "calico")]
)
def test_pods_networks_go_by_the_expression_that_felix_has(
    kube: Any, world: Any, told: str | None, used: str
) -> None:
    world.daemonset("kube-system/calico-node-windows", **({"KUBE_NETWORK": told} if told else {}))
    found = detect(kube).pod_network
    assert used in (found.value or "")
    assert ("cannot be read here" in found.source) is (told == r"Calico\z[")


def test_what_may_not_be_read_is_unknown_and_says_so(kube: Any, world: Any) -> None:
    world.node("lin")
    world.forbidden = {
        "clusterinformations",
        "installations",
        "daemonsets",
        "ippools",
        "configmaps",
    }
    facts = detect(kube)
    for fact in (facts.calico_version, facts.mode, facts.datastore, facts.install, facts.cni):
        assert fact.value is None
        assert "no right to read" in fact.source
    assert "no right to read" in facts.kube_proxy_mode.source


@pytest.mark.parametrize(
    ("lay", "platform"),
    [
        (lambda world: world.put(INSTALLATION, {"spec": {"kubernetesProvider": "AKS"}}), "aks"),
        (lambda world: world.node("n", labels={"eks.amazonaws.com/nodegroup": "g"}), "eks"),
        (lambda world: world.node("n", labels={"kubernetes.azure.com/cluster": "c"}), "aks"),
        (lambda world: world.node("n", labels={"cloud.google.com/gke-nodepool": "p"}), "gke"),
        (lambda world: world.node("n", annotations={"rke.cattle.io/external-ip": "1"}), "rke1"),
        (lambda world: world.node("n", providerID="kind://docker/kind/n"), "kind"),
        (lambda world: world.node("n", providerID="aws:///eu/i-1"), "aws"),
        (lambda world: world.put("/version", {"gitVersion": "v1.30.1+rke2r1"}), "rke2"),
        (lambda world: world.put("/version", {"gitVersion": "v1.30.1-eks-0"}), "eks"),
        (lambda world: world.put("/version", {"gitVersion": "v1.30.1+k3s1"}), "k3s"),
        (lambda world: world.put("/api/v1/namespaces/kube-system/configmaps/aws-auth", {}), "eks"),
        (lambda world: world.node("n"), "self-managed"),
    ],
)
def test_the_platform_is_read_from_what_its_provider_leaves(
    kube: Any, world: Any, lay: Any, platform: str
) -> None:
    world.api.routes["GET /version"] = lambda _: (
        200,
        world.objects.get("/version", {"gitVersion": "v1.34.1"}),
    )
    lay(world)
    assert detect(kube).platform.value == platform


def test_an_empty_mode_of_kube_proxy_means_iptables(kube: Any, world: Any) -> None:
    config = 'kind: KubeProxyConfiguration\nmode: ""\nwinkernel:\n  enableDSR: true\n'
    world.put(
        "/api/v1/namespaces/kube-system/configmaps/kube-proxy", {"data": {"config.conf": config}}
    )
    mode = detect(kube).kube_proxy_mode
    assert (mode.value, mode.source) == (
        "iptables",
        "ConfigMap kube-system/kube-proxy mode (empty: iptables)",
    )


def test_kube_proxys_mode_is_read_from_its_configuration(kube: Any, world: Any) -> None:
    config = {"data": {"config.conf": "mode: nftables\n"}}
    world.put("/api/v1/namespaces/kube-system/configmaps/kube-proxy", config)
    assert detect(kube).kube_proxy_mode.value == "nftables"
