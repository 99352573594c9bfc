"""What is said about the overlay: as announced where nodes and objects agree, what is otherwise where they do not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.facts.vxlan import VxlanFacts
from conformance.model.endpoint import Workload
from conformance.model.facts import Fact, NodeFacts
from conformance.model.host import FdbEntry, HnsNetwork, HnsSubnet, Link, LinuxFacts, Neighbour, RouteEntry, Vxlan

MAC = "00:15:5d:00:00:14"
NODE = NodeFacts(
    name="w1", os="windows", address="10.0.0.14", ready=True, schedulable=True, control_plane=False, os_image="",
    kernel_version="10.0.20348.1", container_runtime="containerd://1.7",
)  # fmt: skip
GOOD = LinuxFacts(
    node="l1",
    links=(Link(name="vxlan.calico", mtu=1450, mac="66:00", up=True, vxlan=Vxlan(vni=4096, port=4789)),),
    routes=(
        RouteEntry(destination="192.168.4.0/26", gateway="192.168.4.1", device="vxlan.calico", onlink=True, table=254),
    ),
    fdb=(FdbEntry(device="vxlan.calico", mac=MAC, destination="10.0.0.14"),),
    neighbours=(Neighbour(device="vxlan.calico", address="192.168.4.1", mac=MAC),),
)


class Cluster:
    """One Linux and one Windows node with one block."""

    def __init__(self, linux: LinuxFacts = GOOD, tunnel: str = "192.168.4.1", mac: str = MAC.upper()) -> None:
        self.seen, self.felix = linux, {"vxlanVNI": 4096}
        names = {"IPv4VXLANTunnelAddr": tunnel, "VXLANTunnelMACAddr": mac}
        notes = {f"projectcalico.org/{name}": value for name, value in names.items() if value}
        self.node = {"metadata": {"name": "w1", "annotations": notes}}
        self.networks = [network(4096)]

    def objects(self, api: str, kind: str) -> list[Any]:
        return [self.node, {"metadata": {"name": "l1"}}]

    def find(self, api: str, kind: str, name: str) -> Any:
        return {"spec": self.felix} if self.felix is not None else None

    def linux(self, node: str) -> LinuxFacts:
        return self.seen

    def hns_networks(self, node: str) -> list[HnsNetwork]:
        return self.networks

    def blocks(self) -> dict[str, Fact[list[str]]]:
        return {"blocks of node w1": Fact(["192.168.4.0/26"], "BlockAffinities")}

    def facts(self) -> VxlanFacts:
        nodes: Any = SimpleNamespace(by_os=lambda os: (NODE,) if os == "windows" else ())
        return VxlanFacts(self, nodes, self, self)  # type: ignore[arg-type]


def network(*vsids: int | None) -> HnsNetwork:
    subnets = tuple(HnsSubnet(prefix="192.168.4.0/26", gateway="192.168.4.1", vsid=vsid) for vsid in vsids)
    return HnsNetwork(id="c", name="Calico", type="Overlay", subnets=subnets)


def only(found: dict[str, Fact[Any]]) -> Any:
    ((_, fact),) = found.items()
    return fact.value


def test_nodes_and_objects_that_agree_are_as_announced() -> None:
    vxlan_facts = Cluster().facts()
    assert only(vxlan_facts.tunnels()) == "second address of its block"
    assert only(vxlan_facts.routes("l1")) == "as announced"
    assert only(vxlan_facts.forwarding("l1")) == "as announced"
    assert only(vxlan_facts.device_port("l1")) == 4789


@pytest.mark.parametrize(
    ("tunnel", "told"),
    [("192.168.4.2", "192.168.4.2, its blocks are 192.168.4.0/26"), ("", "none, its blocks are 192.168.4.0/26")],
)
def test_a_tunnel_that_is_not_the_second_address_is_told(tunnel: str, told: str) -> None:
    assert only(Cluster(tunnel=tunnel).facts().tunnels()) == told


@pytest.mark.parametrize(
    ("routes", "told"),
    [
        ((), "no route"),
        ((replace(GOOD.routes[0], gateway="192.168.9.1"),), "via 192.168.9.1 dev vxlan.calico onlink"),
        ((replace(GOOD.routes[0], device="eth0"),), "via 192.168.4.1 dev eth0 onlink"),
        ((replace(GOOD.routes[0], onlink=False),), "via 192.168.4.1 dev vxlan.calico"),
    ],
    ids=["none", "another gateway", "another device", "not onlink"],
)
def test_a_route_that_is_missing_or_otherwise_is_told(routes: Any, told: str) -> None:
    assert only(Cluster(replace(GOOD, routes=routes)).facts().routes("l1")) == told


@pytest.mark.parametrize(
    "wrong",
    [
        replace(GOOD, neighbours=()),
        replace(GOOD, fdb=()),
        replace(GOOD, fdb=(replace(GOOD.fdb[0], destination="10.0.0.99"),)),
        replace(GOOD, fdb=(*GOOD.fdb, replace(GOOD.fdb[0], destination="10.0.0.99"))),
        replace(GOOD, neighbours=(replace(GOOD.neighbours[0], mac="00:15:5d:00:00:99"),)),
        replace(GOOD, fdb=(replace(GOOD.fdb[0], device="br0"),)),
    ],
    ids=["no neighbour", "no entry", "another node", "two nodes", "another MAC", "another device"],
)
def test_forwarding_that_is_not_to_the_announcing_node_is_told(wrong: LinuxFacts) -> None:
    assert only(Cluster(wrong).facts().forwarding("l1")) != "as announced"


def test_a_node_that_announces_no_mac_is_never_as_announced() -> None:
    silent = replace(GOOD, fdb=(replace(GOOD.fdb[0], mac=""),), neighbours=(replace(GOOD.neighbours[0], mac=""),))
    assert only(Cluster(silent, mac="").facts().forwarding("l1")) != "as announced"


def test_the_configuration_is_read_with_calicos_defaults() -> None:
    cluster = Cluster()
    assert cluster.facts().configured("vxlanPort")["FelixConfiguration default .spec.vxlanPort"].value == 4789
    cluster.felix = {"vxlanPort": 4790, "vxlanVNI": 10000}
    assert only(cluster.facts().configured("vxlanPort")) == 4790
    assert only(cluster.facts().configured("vxlanVNI")) == 10000
    cluster.felix = None  # type: ignore[assignment]
    assert only(cluster.facts().configured("vxlanVNI")) == 4096


def test_a_device_that_is_not_there_is_not_known() -> None:
    assert only(Cluster(replace(GOOD, links=())).facts().device_port("l1")) is None


@pytest.mark.parametrize(
    ("networks", "told"),
    [
        ([network(4096)], "the configured VNI"),
        ([network(4097)], "4097, the VNI is 4096"),
        ([network(4096, 4097)], "4096, 4097, the VNI is 4096"),
        ([network(None)], "None, the VNI is 4096"),
        ([], "no network, the VNI is 4096"),
        ([replace(network(9999), name="External"), network(4096)], "the configured VNI"),
    ],
    ids=["equal", "another", "two", "none", "no network", "beside External"],
)
def test_a_vsid_is_the_configured_vni_or_told(networks: list[HnsNetwork], told: str) -> None:
    cluster = Cluster()
    cluster.networks = networks
    pod = Workload(
        namespace="n", pod="p", container="c", uid="u", role="windows-server", os="windows", node="w1",
        address="192.168.4.5", node_address="10.0.0.14",
    )  # fmt: skip
    assert only(cluster.facts().vsids([pod, pod])) == told
    assert cluster.facts().vsids([]) == {}
