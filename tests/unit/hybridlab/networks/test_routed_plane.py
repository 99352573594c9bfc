# SPDX-License-Identifier: Apache-2.0
"""What each CNI plugin of routed networks makes of a pod, of HNS, of files and of Calico's objects,
and what is refused.

Sources of the table: containernetworking/plugins (win-bridge), Azure/AgentBaker and
Azure/azure-container-networking, aws/amazon-vpc-cni-plugins, flannel-io/flannel and
flannel-io/cni-plugin, projectcalico/calico cni-plugin.
"""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest

from hybridlab.cluster.installs import calico, configuration, operator
from hybridlab.networks.contract.routing import BlockFacts, NodeEnd, RoutingFacts
from hybridlab.networks.contract.windows_node import WindowsNode
from hybridlab.networks.registry import plane_of
from hybridlab.networks.routed.plane import Routed
from hybridlab.networks.routed.plugins import PLUGINS
from hybridlab.profiles.check import ProfileError
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import Machine, machines, pod_cidr
from hybridlab.windows import hns_objects
from hybridlab.windows.hns_networks import Hns

PROFILES = ("cloud-routes", "static-routes", "aks-operator", "eks-vpc", "canal-host-gw")
"""A profile of each plugin."""
BY_HOST_LOCAL = ("cloud-routes", "static-routes", "canal-host-gw")


def plane(profile: str) -> Routed:
    found = plane_of(load(profile))
    assert isinstance(found, Routed)
    return found


def windows(found: Routed) -> Machine:
    return next(machine for machine in machines(found.profile) if machine.os == "windows")


def with_pod(found: Routed) -> tuple[WindowsNode, str]:
    """A Windows node on which the plugin has wired a pod, and the pod's network of addresses."""
    node = found.windows_node(windows(found), "10-calico.conf")
    network = pod_cidr(node.machine, found.profile)
    node.hns.ensure_pod_network(found.plugged_network(node, network))
    node.hns.attach("uid", "0123456789abcdef", network.replace(".0/24", ".9"), "00:15:5d:00:00:01")
    return node, network


GOLDEN: dict[str, dict[str, Any]] = {
    # name of the HNS network, of the host's endpoint and of a pod's, last byte of pods' gateway,
    # first moments, file
    "cloud-routes": {
        "network": "Calico", "host": "Calico_ep", "pod": "0123456789abcdef_Calico", "gateway": 2,
        "initial": "closed", "file": r"C:\etc\cni\net.d\10-calico.conflist",
        "type": "calico", "linux": "calico", "kube_network": "Calico.*", "at_boot": False,
    },
    "static-routes": {
        "network": "cbr0", "host": "cbr0", "pod": "0123456789abcdef_cbr0", "gateway": 2,
        "initial": "open", "file": r"C:\k\cni\config\cni.conf",
        "type": "win-bridge", "linux": "calico", "kube_network": "cbr0.*", "at_boot": True,
    },
    "aks-operator": {
        "network": "azure", "host": None, "pod": "01234567-eth0", "gateway": 1,
        "initial": "open", "file": r"C:\k\azurecni\netconf\10-azure.conflist",
        "type": "azure-vnet", "linux": "azure-vnet", "kube_network": "azure.*", "at_boot": False,
    },
    "eks-vpc": {
        "network": "vpcbr0a1b2c3d4e5f", "host": None, "pod": "cid-0123456789abcdef", "gateway": 1,
        "initial": "open", "file": r"C:\Program Files\Amazon\EKS\cni\config\vpc-bridge.conf",
        "type": "vpc-bridge", "linux": "aws-cni", "kube_network": "vpc.*", "at_boot": False,
    },
    "canal-host-gw": {
        "network": "cbr0", "host": "cbr0_ep", "pod": "0123456789abcdef_cbr0", "gateway": 2,
        "initial": "open", "file": r"C:\etc\cni\net.d\10-flannel.conf",
        "type": "flannel", "linux": "calico", "kube_network": "cbr0.*", "at_boot": True,
    },
}  # fmt: skip


def made(profile: str) -> dict[str, Any]:
    """What the profile's plugin makes of a node and of a pod, as in ``GOLDEN``."""
    found = plane(profile)
    at_boot = found.windows_node(windows(found), "10-calico.conf").hns.pod_network is not None
    node, network = with_pod(found)
    there = node.hns.pod_network
    assert there is not None
    port = found.pod_port(node.machine, network.replace(".0/24", ".9"), network, node)
    assert (there.spec.type, there.vsid, port.mtu) == ("L2Bridge", None, 1500)
    (path,) = (name for name in node.cni_files if not name.endswith("calico-kubeconfig"))
    conf = json.loads(node.cni_text)
    names = {bool(each.pod): each.name for each in node.hns.endpoints}
    return {
        "network": there.name,
        "host": names.get(False),
        "pod": names[True],
        "gateway": int(port.gateway.rpartition(".")[2]),
        "initial": port.initial,
        "file": path,
        "type": (conf.get("plugins") or [conf])[0]["type"],
        "linux": found.cni_type("linux"),
        "kube_network": found.kube_network,
        "at_boot": at_boot,
    }


@pytest.mark.parametrize("profile", PROFILES)
def test_a_plugin_makes_of_a_node_what_its_sources_say(profile: str) -> None:
    assert made(profile) == GOLDEN[profile]


@pytest.mark.parametrize(("one", "other"), list(combinations(PROFILES, 2)))
def test_two_plugins_in_each_others_place_are_both_found_out(
    monkeypatch: pytest.MonkeyPatch, one: str, other: str
) -> None:
    """By more than the plugin's name and its file: by what pods, HNS or Linux nodes get."""
    types = [type(plane(profile).plugin) for profile in (one, other)]
    for true, swapped in zip(types, reversed(types), strict=True):
        monkeypatch.setitem(PLUGINS, true.type, swapped)
    for profile in (one, other):
        wrong = {key for key, value in made(profile).items() if value != GOLDEN[profile][key]}
        assert wrong - {"type", "file"}, f"nothing holds {profile} against the other plugin"


@pytest.mark.parametrize("profile", PROFILES)
def test_hns_shows_a_pods_endpoint_with_the_plugins_policies(profile: str) -> None:
    found = plane(profile)
    node, network = with_pod(found)
    there = node.hns.pod_network
    assert there is not None
    pod = next(each for each in node.hns.endpoints if each.pod)
    shown = hns_objects.endpoint(pod, there, node.pod_policies, ())
    gateway = network.replace(".0/24", f".{GOLDEN[profile]['gateway']}")
    assert (shown["VirtualNetworkName"], shown["GatewayAddress"]) == (there.name, gateway)
    (nat,) = (policy for policy in shown["Policies"] if policy["Type"] == "OutBoundNAT")
    by_azure = profile == "aks-operator"
    assert (found.profile.network.service_cidr in nat["ExceptionList"]) is not by_azure
    others = profile != "cloud-routes"
    assert (found.profile.network.node_cidr in nat["ExceptionList"]) is others
    acls = [
        (policy["Action"], policy["Direction"], policy["Priority"])
        for policy in shown["Policies"]
        if policy["Type"] == "ACL"
    ]
    azure = [("Block", "Out", 200)] * 2 + [("Allow", "In", 65500), ("Allow", "Out", 65500)]
    assert acls == (azure if profile == "aks-operator" else [])


def facts(found: Routed) -> RoutingFacts:
    nodes = machines(found.profile)
    ends = {machine.name: NodeEnd(address=machine.address) for machine in nodes}
    cidrs = {machine.name: pod_cidr(machine, found.profile) for machine in nodes}
    blocks = {cidr: BlockFacts(cidr=cidr, node=name) for name, cidr in cidrs.items()}
    by_api = found.profile.network.ipam == "host-local"
    return RoutingFacts(ends=ends, blocks=blocks if by_api else {})


@pytest.mark.parametrize("profile", PROFILES)
def test_either_every_node_has_routes_or_the_fabric(profile: str) -> None:
    found = plane(profile)
    known = facts(found)
    nodes = {machine.name: machine for machine in machines(found.profile)}
    routes = found.program("windows-2022", known, {}, None).routes
    others = {name: pod_cidr(machine, found.profile) for name, machine in nodes.items()}
    own = others.pop("windows-2022")
    assert routes.own_blocks == (own,)
    by_hand = profile in {"static-routes", "canal-host-gw"}
    assert {route.cidr: route.via for route in routes.direct} == (
        {cidr: nodes[name].address for name, cidr in others.items()} if by_hand else {}
    )
    on_fabric = {route.node for route in found.fabric(known).routes}
    assert on_fabric == (set() if by_hand else set(nodes))


def test_flannel_lays_no_route_to_a_node_that_has_not_announced_itself_or_is_on_another_link() -> (
    None
):
    found = plane("canal-host-gw")
    annotations = found.claim(windows(found), None)  # type: ignore[arg-type]
    assert annotations["flannel.alpha.coreos.com/backend-type"] == "host-gw"
    assert found.node_end("windows-2022", {"annotations": annotations}) == NodeEnd(
        address=windows(found).address
    )
    assert found.node_end("windows-2022", {}) is None
    known = facts(found)
    del known.ends["linux-2"]
    routes = found.program("linux-1", known, {}, None).routes.direct
    assert "192.168.2.0/24" not in {route.cidr for route in routes}
    two = plane_of(load("canal-host-gw", ["nodes.windows-2022.node_cidr=10.0.1.0/24"]))
    assert isinstance(two, Routed)
    near = {route.cidr for route in two.program("linux-1", facts(two), {}, None).routes.direct}
    assert pod_cidr(windows(two), two.profile) not in near


def test_the_annotation_of_a_nodes_address_needs_a_backend() -> None:
    assert not plane("aks-operator").has_backend
    assert plane_of(load("bgp")).has_backend


def test_only_calicos_plugin_annotates_pods_with_calicos_words() -> None:
    words = {
        profile: plane(profile).pod_annotations("windows", "10.0.0.9", "s") for profile in PROFILES
    }
    calico = "cni.projectcalico.org/podIP"
    assert [profile for profile, found in words.items() if calico in found] == ["cloud-routes"]
    assert words["eks-vpc"] == {"vpc.amazonaws.com/PrivateIPv4Address": "10.0.0.9/24"}
    on_linux = {
        profile: plane(profile).pod_annotations("linux", "10.0.0.9", "s") for profile in PROFILES
    }
    assert [profile for profile, found in on_linux.items() if not found] == [
        "aks-operator",
        "eks-vpc",
    ]


@pytest.mark.parametrize(
    ("profile", "cni", "prefix"),
    [
        ("cloud-routes", {"type": "Calico", "ipam": {"type": "HostLocal"}}, None),
        ("aks-operator", {"type": "AzureVNET", "ipam": {"type": "AzureVNET"}}, "azv"),
        ("eks-vpc", {"type": "AmazonVPC", "ipam": {"type": "AmazonVPC"}}, "eni"),
    ],
)
def test_the_operators_objects_name_the_plugin(profile: str, cni: Any, prefix: str | None) -> None:
    found = plane(profile)
    installed = operator.installation(found.profile, found)["spec"]
    ours = profile == "cloud-routes"
    assert (installed["cni"], "ipPools" in installed["calicoNetwork"]) == (cni, ours)
    assert bool(operator.cni_config_maps(found.profile, found, found.declared())) is ours
    workloads = {
        obj["metadata"]["name"]: obj["spec"]["template"]["spec"]
        for name, obj in calico.objects(found.profile, found, found.declared())
        if name == "daemonsets.apps"
    }
    linux = {
        entry["name"]: entry.get("value")
        for entry in workloads["calico-node"]["containers"][0]["env"]
    }
    assert (linux["CALICO_NETWORKING_BACKEND"], linux.get("FELIX_INTERFACEPREFIX")) == (
        "none",
        prefix,
    )
    assert (linux.get("USE_POD_CIDR") == "true") is ours
    for pods in workloads.values():
        names = [container["name"] for container in pods["initContainers"]]
        assert ("install-cni" in names) is ours


@pytest.mark.parametrize(
    ("given", "cidrs"),
    [
        ((), ["192.168.0.0/16"]),
        (("network.plane.pool=false",), []),
        (("network.plane.pool_cidr=172.16.0.0/16",), ["172.16.0.0/16"]),
    ],
)
def test_the_pool_that_calicos_startup_makes_is_there_or_not(
    given: tuple[str, ...], cidrs: list[str]
) -> None:
    found = plane_of(load("aks-operator", given))
    pools = configuration._pools(found.profile, found.declared())
    assert [spec["cidr"] for _, spec in pools] == cidrs


def test_a_pod_of_eks_that_names_windows_asks_for_an_address_and_another_gets_none() -> None:
    found = plane("eks-vpc")
    node, _ = with_pod(found)
    container = {"name": "c", "resources": {"limits": {"cpu": "1"}}}
    spec = {"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [container]}
    pod = found.admit({"metadata": {}, "spec": spec}, "pods", None)
    address = "vpc.amazonaws.com/PrivateIPv4Address"
    assert pod["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1", address: "1"}, "requests": {address: "1"},
    }  # fmt: skip
    assert found.refusal(node, pod) == ""
    pinned = {"metadata": {}, "spec": {"nodeName": "windows-2022", "containers": [{"name": "c"}]}}
    assert address in found.refusal(node, found.admit(pinned, "pods", None))


RANGE = "no IP addresses available in range set: 192.168.{0}.{1}-192.168.{0}.254"
AZURE = (
    "Failed to allocate pool: Failed to delegate: Failed to allocate address: "
    "No available addresses"
)
LABEL = "pod does not have label vpc.amazonaws.com/PrivateIPv4Address"


@pytest.mark.parametrize(
    ("profile", "windows_words", "linux_words"),
    [
        *((name, RANGE.format(4, 3), RANGE.format(1, 2)) for name in BY_HOST_LOCAL),
        ("aks-operator", AZURE, AZURE),
        (
            "eks-vpc",
            f"failed to parse Kubernetes args: {LABEL}",
            "add cmd: failed to assign an IP address to container",
        ),
    ],
)
def test_a_node_without_a_free_address_refuses_in_its_plugins_words(
    profile: str, windows_words: str, linux_words: str
) -> None:
    """Sources: containernetworking/plugins host-local; Azure/AKS#2532; aws/containers-roadmap#463;
    aws/amazon-vpc-cni-k8s cmd/routed-eni-cni-plugin."""
    found = plane(profile)
    nodes = {machine.name: machine for machine in machines(found.profile)}
    words = [found.plugin.full(nodes[name]) for name in ("windows-2022", "linux-1")]
    assert words == [windows_words, linux_words]


@pytest.mark.parametrize(
    ("profile", "given", "why"),
    [
        (
            "aks-operator",
            "network.ipam=host-local",
            "is azure-vnet, which needs network.ipam=platform",
        ),
        (
            "static-routes",
            "calico.install=operator",
            "is win-bridge, which Calico's operator does not support",
        ),
        (
            "cloud-routes",
            "calico.install=services",
            "is calico, which is implemented only with calico.install=operator",
        ),
        (
            "canal-host-gw",
            "network.plane.routes=cloud",
            "is cloud, but flannel host-gw sets the nodes' routes",
        ),
        ("static-routes", "network.plane.plugin=bridge", "plugin"),
    ],
)
def test_what_cannot_be_or_is_not_built_is_refused(profile: str, given: str, why: str) -> None:
    with pytest.raises(ProfileError, match=why):
        load(profile, [given])


def test_a_network_has_its_pods_by_the_name_that_the_plugin_gives() -> None:
    found = plane("aks-operator")
    hns = Hns("w", found.external_network(windows(found)), found.pod_network)
    assert hns.pod_network is None
    with pytest.raises(ValueError, match="w has no HNS network azure"):
        hns.attach("pod", "sandbox", "10.0.0.9", "00:15:5d:00:00:01")
