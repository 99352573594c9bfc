# SPDX-License-Identifier: Apache-2.0
"""Facts are read from objects, name their source, and stay unknown if they cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conformance.facts.detect import detect, node_facts
from conformance.facts.windows_network import BACKEND
from tests.unit.conformance.kube import fake_api

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


V6, V4, OTHER = "fd00::7", "192.0.2.7", "192.0.2.9"


@pytest.mark.parametrize(
    ("internal", "announced", "external", "address"),
    [
        ([V6], "", [], V6),
        ([V6, V4], "", [], V4),
        ([V4, V6], OTHER, [OTHER], V4),
        ([V6], f"{OTHER}/24", [V4], OTHER),
        ([V6], "", [V4], V4),
        ([], "", [V6], V6),
        ([], "", [], ""),
    ],
)
def test_a_node_has_its_ipv4_address_since_calico_for_windows_has_no_others(
    kube: Any, world: Any, *, internal: list[str], announced: str, external: list[str], address: str
) -> None:
    world.node("lin", annotations={"projectcalico.org/IPv4Address": announced})
    kinds = [("InternalIP", internal), ("ExternalIP", external)]
    listed = [{"type": kind, "address": one} for kind, given in kinds for one in given]
    world.objects["/api/v1/nodes/lin"]["status"]["addresses"] = listed
    assert detect(kube).nodes[0].address == address


@pytest.mark.parametrize("role", ["control-plane", "master", "controlplane", "etcd"])
def test_nodes_of_the_control_plane_are_known_by_each_of_their_labels(
    kube: Any, world: Any, role: str
) -> None:
    world.node("lin", labels={f"node-role.kubernetes.io/{role}": "true"})
    assert detect(kube).nodes[0].control_plane


@pytest.mark.parametrize(
    ("env", "value"),
    [
        ({"FELIX_BPFENABLED": "true"}, "ebpf"),
        ({"felix_bpfenabled": "1"}, "ebpf"),
        ({"FELIX_BPFENABLED": "false"}, "ipvs"),
        ({}, "ipvs"),
    ],
)
def test_where_felix_serves_services_by_ebpf_kube_proxys_own_configuration_does_not_count(
    kube: Any, world: Any, env: dict[str, str], value: str
) -> None:
    world.put("/api/v1/namespaces/kube-system/configmaps/kube-proxy", {"data": {"c": "mode: ipvs"}})
    world.node("lin")
    world.daemonset("calico-system/calico-node", **env)
    assert detect(kube).kube_proxy_mode.value == value


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


UNREAD = (r"Calico\z[", "(?=calico)", r"(a)\1", "(a{500}){500}", "x" * 2000, "\ud800")
"""Expressions that Go does not compile, and some that are not asked of it."""


@pytest.mark.parametrize(
    ("told", "used"),
    [
        ("vpc.*", "vpc.*"),
        (r"(?i)calico\z|\pL+", r"\pL"),
        (None, "calico"),
        *((unread, "(?i)calico.*|azure") for unread in UNREAD),
    ],
)
def test_pods_networks_go_by_the_expression_that_felix_has(
    kube: Any, world: Any, told: str | None, used: str
) -> None:
    world.daemonset("kube-system/calico-node-windows", **({"KUBE_NETWORK": told} if told else {}))
    found = detect(kube).pod_network
    assert used in (found.value or "")
    assert ("cannot be read (" in found.source) is (told in UNREAD)
    assert len(found.source) < 400


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


def on(version: str = "v1.34.1", **node: Any) -> Callable[[Any], None]:
    """Lay down one node of a cluster whose Kubernetes has this version."""

    def lay(world: Any) -> None:
        world.api.routes["GET /version"] = (200, {"gitVersion": version})
        world.node("n", **node)

    return lay


AZURE = {"kubernetes.azure.com/cluster": "c"}
POOL = {"eks.amazonaws.com/nodegroup": "g"}
FARGATE = {"eks.amazonaws.com/compute-type": "fargate"}
GKE = {"cloud.google.com/gke-nodepool": "p"}
RKE1 = {"rke.cattle.io/external-ip": "1"}


@pytest.mark.parametrize(
    ("lay", "platform"),
    [
        (lambda world: world.put(INSTALLATION, {"spec": {"kubernetesProvider": "AKS"}}), "aks"),
        (on("v1.30.1-eks-a5565ad", labels=POOL), "eks"),
        (on("v1.30.1-eks-a5565ad", providerID="aws:///eu/i-1"), "aws"),
        (on(labels=AZURE | {"kubernetes.azure.com/os-sku": "Windows2022"}), "aks"),
        (on(labels=AZURE, providerID="azure:///subscriptions/0"), "aks"),
        (on("v1.30.1-gke.1", labels=GKE), "gke"),
        (on(annotations=RKE1 | {"rke.cattle.io/internal-ip": "1"}), "rke1"),
        (on(providerID="kind://docker/kind/n"), "kind"),
        (on(providerID="aws:///eu/i-1"), "aws"),
        (on("v1.30.1+rke2r1"), "rke2"),
        (on("v1.30.1+k3s1"), "k3s"),
        (on(), "self-managed"),
        (on("v1.29.1-eks-a5565ad"), "self-managed"),
        (on("v1.29.1-eks-a5565ad", providerID="vsphere://42"), "self-managed"),
        (on(labels=POOL), "self-managed"),
        (on(labels=AZURE, providerID="vsphere://42"), "self-managed"),
        (on("v1.28.4-gke.1400", providerID="vsphere://42"), "self-managed"),
        (on(annotations=RKE1), "self-managed"),
    ],
)
def test_the_platform_is_what_two_marks_of_it_say_together(
    kube: Any, world: Any, lay: Callable[[Any], None], platform: str
) -> None:
    lay(world)
    assert detect(kube).platform.value == platform


@pytest.mark.parametrize("labels", [{"type": "virtual-kubelet"}, FARGATE])
@pytest.mark.parametrize("system", ["linux", "Windows"])
def test_a_virtual_node_is_no_node_of_the_cluster_and_makes_no_platform(
    kube: Any, world: Any, labels: dict[str, str], system: str
) -> None:
    on(labels={})(world)
    world.node("pods", system, labels={**labels, **AZURE, "kubernetes.azure.com/managed": "false"})
    facts = detect(kube)
    assert ([node.name for node in facts.nodes], facts.platform.value) == (["n"], "self-managed")
    assert [(node.name, node.os, bool(node.virtual)) for node in facts.left_out] == [
        ("pods", system.lower(), True)
    ]


@pytest.mark.parametrize(
    ("labels", "namespace", "wanted"),
    [
        ({"k8s-app": "kube-proxy-windows"}, "kube-system", True),
        ({"k8s-app": "kube-proxy"}, "kube-system", True),
        ({"k8s-app": "kube-proxy"}, "other", False),
        ({"k8s-app": "else"}, "kube-system", False),
    ],
)
def test_kube_proxy_runs_in_pods_of_windows_nodes_or_as_a_service(
    kube: Any, world: Any, labels: dict[str, str], namespace: str, wanted: bool
) -> None:
    world.node("win", "windows", "10.0.20348.1")
    pod = {"metadata": {"labels": labels}, "spec": {"nodeName": "win", "containers": []}}
    world.put(f"/api/v1/namespaces/{namespace}/pods/p", pod)
    listing = [{**world.objects[f"/api/v1/namespaces/{namespace}/pods/p"]}]
    world.api.routes = {"GET /api/v1/pods": fake_api.listing(*listing), **world.api.routes}
    assert detect(kube).kube_proxy_pods.value is wanted


def test_windows_in_capital_letters_is_windows(kube: Any, world: Any) -> None:
    world.node("win", "Windows", "10.0.20348.1")
    assert [node.os for node in detect(kube).nodes] == ["windows"]


def test_an_empty_mode_of_kube_proxy_means_iptables(kube: Any, world: Any) -> None:
    config = 'kind: KubeProxyConfiguration\nmode: ""\nwinkernel:\n  enableDSR: true\n'
    world.put(
        "/api/v1/namespaces/kube-system/configmaps/kube-proxy", {"data": {"config.conf": config}}
    )
    mode = detect(kube).kube_proxy_mode
    assert (mode.value, mode.source) == (
        "iptables",
        "ConfigMap kube-system/kube-proxy mode (empty, which means iptables)",
    )


def test_kube_proxys_mode_is_read_from_its_configuration(kube: Any, world: Any) -> None:
    config = {"data": {"config.conf": "mode: nftables\n"}}
    world.put("/api/v1/namespaces/kube-system/configmaps/kube-proxy", config)
    assert detect(kube).kube_proxy_mode.value == "nftables"


@pytest.mark.parametrize(
    ("backend", "networks"), [({}, ()), ({BACKEND: "vxlan"}, ("10.244.1.0/24",))]
)
def test_the_podcidr_of_a_linux_node_is_known_where_flannel_carries_pods(
    backend: dict[str, str], networks: tuple[str, ...]
) -> None:
    node = {
        "metadata": {"name": "linux-1", "annotations": backend},
        "spec": {"podCIDR": "10.244.1.0/24"},
        "status": {"nodeInfo": {"operatingSystem": "linux"}},
    }
    assert node_facts(node).pod_networks == networks


@pytest.mark.parametrize(
    ("configuration", "single"),
    [
        (None, True),
        ('{"type": "calico"}', True),
        ('{"windows_use_single_network": true}', True),
        ('{"windows_use_single_network" : false}', False),
    ],
)
def test_a_windows_node_has_one_hns_network_unless_the_configuration_says_false(
    kube: Any, world: Any, configuration: str | None, single: bool
) -> None:
    said = {} if configuration is None else {"CNI_NETWORK_CONFIG": configuration}
    world.daemonset("kube-system/calico-node-windows", **said)
    found = detect(kube).single_network
    assert found.value is single
    where = "windows_use_single_network in CNI_NETWORK_CONFIG of DaemonSet"
    assert found.source.startswith(where) is ("windows_use" in (configuration or ""))
