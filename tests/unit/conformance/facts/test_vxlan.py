# SPDX-License-Identifier: Apache-2.0
"""Messages about the overlay: the announced values if nodes and objects agree, and the
difference if they do not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.facts.networks.vxlan import VxlanFacts
from conformance.facts.objects import CalicoObjects
from conformance.model.facts import Fact
from conformance.model.host import (
    FdbEntry,
    HnsNetwork,
    HnsSubnet,
    Link,
    LinuxFacts,
    Neighbour,
    RemoteSubnet,
    RouteEntry,
    Vxlan,
)
from tests.unit.conformance.builders import a_node

MAC, OTHER_MAC = "00:15:5d:00:00:14", "66:00:00:00:00:11"
NODE = a_node("w1", "windows", address="10.0.0.14", kernel_version="10.0.20348.1")
LINUX = replace(NODE, name="l1", os="linux", address="10.0.0.11")
GOOD = LinuxFacts(
    node="l1",
    links=(
        Link(
            name="vxlan.calico", mtu=1450, mac=OTHER_MAC, up=True, vxlan=Vxlan(vni=4096, port=4789)
        ),
    ),
    routes=(
        RouteEntry(
            destination="192.168.4.0/26",
            gateway="192.168.4.1",
            device="vxlan.calico",
            onlink=True,
            table=254,
        ),
    ),
    fdb=(FdbEntry(device="vxlan.calico", mac=MAC, destination="10.0.0.14"),),
    neighbours=(Neighbour(device="vxlan.calico", address="192.168.4.1", mac=MAC),),
)


class Cluster:
    """One Linux and one Windows node, each with one block, and Linux nodes beside them."""

    def __init__(
        self, linux: LinuxFacts = GOOD, tunnel: str = "192.168.4.1", mac: str = MAC.upper()
    ) -> None:
        self.seen, self.felix = linux, {"vxlanVNI": 4096}
        self.nodes = [LINUX, NODE]
        self.annotations = {
            "w1": _notes(IPv4VXLANTunnelAddr=tunnel, VXLANTunnelMACAddr=mac),
            "l1": _notes(IPv4VXLANTunnelAddr="192.168.1.0"),
        }
        self.cidrs = {"w1": ["192.168.4.0/26"], "l1": ["192.168.1.0/26"]}
        self.networks = [network(4096)]

    def beside(self, name: str, cidr: str, tunnel: str) -> None:
        """One more Linux node."""
        self.nodes.append(replace(LINUX, name=name, address="10.0.0.12"))
        self.cidrs[name], self.annotations[name] = [cidr], _notes(IPv4VXLANTunnelAddr=tunnel)

    def objects(self, api: str, kind: str) -> list[Any]:
        return [
            {"metadata": {"name": name, "annotations": notes}}
            for name, notes in self.annotations.items()
        ]

    def find(self, api: str, kind: str, name: str, namespace: str | None = None) -> Any:
        return {"spec": self.felix} if self.felix is not None else None

    def linux(self, node: str) -> LinuxFacts:
        return self.seen

    def hns_networks(self, node: str) -> list[HnsNetwork]:
        return self.networks

    def blocks(self, *, of_all: bool = False) -> dict[str, Fact[list[str]]]:
        return {
            f"blocks of node {name}": Fact(cidrs, "BlockAffinities")
            for name, cidrs in self.cidrs.items()
        }

    def facts(self) -> VxlanFacts:
        nodes: Any = SimpleNamespace(
            nodes=tuple(self.nodes),
            by_os=lambda os: tuple(node for node in self.nodes if node.os == os),
        )
        return VxlanFacts(self.objects_of(nodes), self, looked_into=["l1"])  # type: ignore[arg-type]

    def objects_of(self, nodes: Any) -> CalicoObjects:
        calico = CalicoObjects(self, nodes)  # type: ignore[arg-type]  # what it is asked is here
        calico.blocks = self.blocks  # type: ignore[method-assign]
        return calico


def _notes(**notes: str) -> dict[str, str]:
    return {f"projectcalico.org/{name}": value for name, value in notes.items() if value}


SUBNET = RemoteSubnet(prefix="192.168.1.0/26", provider="10.0.0.11", mac=OTHER_MAC, vni=4096)


def network(
    *vsids: int | None, remote: tuple[RemoteSubnet, ...] = (SUBNET,), policies: bool = True
) -> HnsNetwork:
    subnets = tuple(
        HnsSubnet(prefix="192.168.4.0/26", gateway="192.168.4.1", vsid=vsid) for vsid in vsids
    )
    return HnsNetwork(
        id="c",
        name="Calico",
        type="Overlay",
        subnets=subnets,
        remote_subnets=remote,
        shows_policies=policies,
        pods=True,
    )


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
    [
        ("192.168.4.2", "192.168.4.2, but its blocks are 192.168.4.0/26"),
        ("", "none, but its blocks are 192.168.4.0/26"),
    ],
)
def test_a_tunnel_that_is_not_the_second_address_is_told(tunnel: str, told: str) -> None:
    assert only(Cluster(tunnel=tunnel).facts().tunnels()) == told


@pytest.mark.parametrize(
    ("routes", "told"),
    [
        ((), "no route"),
        (
            (replace(GOOD.routes[0], gateway="192.168.9.1"),),
            "via 192.168.9.1 dev vxlan.calico onlink",
        ),
        ((replace(GOOD.routes[0], device="eth0"),), "via 192.168.4.1 dev eth0 onlink"),
        ((replace(GOOD.routes[0], onlink=False),), "via 192.168.4.1 dev vxlan.calico"),
    ],
    ids=["none", "another gateway", "another device", "not onlink"],
)
def test_a_route_that_is_missing_or_otherwise_is_told(routes: Any, told: str) -> None:
    assert only(Cluster(replace(GOOD, routes=routes)).facts().routes("l1")) == told


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (replace(GOOD, neighbours=()), "no neighbour entry for 192.168.4.1"),
        (replace(GOOD, fdb=()), f"no forwarding entry for {MAC}"),
        (replace(GOOD, fdb=(replace(GOOD.fdb[0], destination="10.0.0.99"),)), "leads to 10.0.0.99"),
        (replace(GOOD, fdb=(replace(GOOD.fdb[0], vni=4999),)), "leads to 10.0.0.14 with VNI 4999"),
        (replace(GOOD, fdb=(replace(GOOD.fdb[0], port=8472),)), "leads to 10.0.0.14 port 8472"),
        (
            replace(GOOD, fdb=(*GOOD.fdb, replace(GOOD.fdb[0], destination="10.0.0.99"))),
            "leads to 10.0.0.14, 10.0.0.99",
        ),
        (
            replace(GOOD, neighbours=(replace(GOOD.neighbours[0], mac="00:15:5d:00:00:99"),)),
            "address 00:15:5d:00:00:99",
        ),
        (replace(GOOD, fdb=(replace(GOOD.fdb[0], device="br0"),)), "no forwarding entry"),
    ],
    ids=[
        "no neighbour",
        "no entry",
        "another node",
        "another VNI",
        "another port",
        "two nodes",
        "another MAC",
        "another device",
    ],
)
def test_forwarding_that_is_not_to_the_announcing_node_is_told(
    wrong: LinuxFacts, told: str
) -> None:
    assert told in only(Cluster(wrong).facts().forwarding("l1"))


def test_a_node_that_announces_no_mac_is_never_as_announced() -> None:
    silent = replace(
        GOOD, fdb=(replace(GOOD.fdb[0], mac=""),), neighbours=(replace(GOOD.neighbours[0], mac=""),)
    )
    assert only(Cluster(silent, mac="").facts().forwarding("l1")) != "as announced"


def test_the_configuration_is_read_with_calicos_defaults() -> None:
    cluster = Cluster()
    assert (
        cluster.facts().configured("vxlanPort")["FelixConfiguration default .spec.vxlanPort"].value
        == 4789
    )
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
        ([network(4097)], "4097, but the configured VNI is 4096"),
        ([network(4096, 4097)], "4096, 4097, but the configured VNI is 4096"),
        ([network(None)], "None, but the configured VNI is 4096"),
        ([], "no network, but the configured VNI is 4096"),
        (
            [replace(network(9999), name="External", pods=False), network(4096)],
            "the configured VNI",
        ),
    ],
    ids=["equal", "another", "two", "none", "no network", "beside External"],
)
def test_a_vsid_is_the_configured_vni_or_told(networks: list[HnsNetwork], told: str) -> None:
    cluster = Cluster()
    cluster.networks = networks
    assert only(cluster.facts().vsid("w1")) == told


@pytest.mark.parametrize(
    ("vxlan", "told"),
    [
        ({"vni": 4096}, "the configured VNI"),
        ({"vni": 4097}, "4097, but the configured VNI is 4096"),
        (None, "no device, but the configured VNI is 4096"),
    ],
)
def test_a_device_has_the_configured_vni_or_is_told(
    vxlan: dict[str, int] | None, told: str
) -> None:
    device = replace(GOOD.links[0], vxlan=Vxlan(vni=vxlan["vni"], port=4789) if vxlan else None)
    assert only(Cluster(replace(GOOD, links=(device,))).facts().device_vni("l1")) == told


def test_a_device_that_is_down_is_never_as_configured() -> None:
    down = replace(GOOD, links=(replace(GOOD.links[0], up=False),))
    assert (
        only(Cluster(down).facts().device_vni("l1"))
        == "a device that is down, with VNI 4096, but the configured VNI is 4096"
    )


@pytest.mark.parametrize(
    ("remote", "told"),
    [
        ((SUBNET,), "as announced"),
        ((), "no route"),
        ((replace(SUBNET, prefix="192.168.1.64/26"),), "no route"),
        ((replace(SUBNET, provider="10.0.0.99"),), "node address 10.0.0.99"),
        ((replace(SUBNET, vni=4097),), "VNI 4097"),
        ((replace(SUBNET, mac="66:99"),), "MAC address 66:99"),
        ((SUBNET, replace(SUBNET, provider="10.0.0.99")), "node address 10.0.0.99"),
    ],
    ids=["right", "none", "another block", "another node", "another VNI", "another MAC", "two"],
)
def test_a_windows_node_has_a_remote_subnet_for_each_block_or_is_told(
    remote: tuple[RemoteSubnet, ...], told: str
) -> None:
    cluster = Cluster()
    cluster.networks = [network(4096, remote=remote)]
    assert list(cluster.facts().remote_subnets("w1")) == [
        "route of node w1 to block 192.168.1.0/26 of node l1"
    ]
    assert only(cluster.facts().remote_subnets("w1")) == told


def test_a_network_that_shows_no_policies_at_all_says_nothing_of_routes() -> None:
    cluster = Cluster()
    cluster.networks = [network(4096, remote=(), policies=False)]
    assert only(cluster.facts().remote_subnets("w1")) is None
    assert cluster.facts().deviations("w1", "l1") == {}


def test_linux_nodes_are_looked_for_as_windows_nodes_are() -> None:
    cluster = Cluster()
    cluster.beside("l2", "192.168.2.0/26", "192.168.2.0")
    missing = "route of node l1 to block 192.168.2.0/26 of node l2"
    assert cluster.facts().routes("l1")[missing].value == "no route"
    assert "forwarding of node l1 to the tunnel of node l2" not in cluster.facts().forwarding("l1")
    way = replace(GOOD.routes[0], destination="192.168.2.0/26", gateway="192.168.2.0")
    cluster.seen = replace(GOOD, routes=(*GOOD.routes, way))
    assert cluster.facts().routes("l1")[missing].value == "as announced"
    told = cluster.facts().forwarding("l1")["forwarding of node l1 to the tunnel of node l2"].value
    assert told == "no neighbour entry for 192.168.2.0"


def test_between_linux_nodes_a_route_past_the_overlay_is_as_good() -> None:
    cluster = Cluster()
    cluster.beside("l2", "192.168.2.0/26", "")
    past = replace(
        GOOD.routes[0],
        destination="192.168.2.0/26",
        gateway="10.0.0.12",
        device="eth0",
        onlink=False,
    )
    cluster.seen = replace(GOOD, routes=(*GOOD.routes, past))
    assert (
        cluster.facts().routes("l1")["route of node l1 to block 192.168.2.0/26 of node l2"].value
        == "as announced"
    )
    assert "forwarding of node l1 to the tunnel of node l2" not in cluster.facts().forwarding("l1")


def test_what_is_otherwise_between_two_nodes_is_told_and_nothing_else() -> None:
    cluster = Cluster()
    cluster.beside("l2", "192.168.2.0/26", "192.168.2.0")
    assert cluster.facts().deviations("l1", "w1") == {}
    assert cluster.facts().deviations("w1", "l1") == {}
    assert list(cluster.facts().deviations("l1", "l2")) == [
        "route of node l1 to block 192.168.2.0/26 of node l2"
    ]
    cluster.networks = [network(4097, remote=())]
    assert list(cluster.facts().deviations("w1", "l1")) == [
        "VSID of HNS network Calico on node w1",
        "route of node w1 to block 192.168.1.0/26 of node l1",
    ]
    device = replace(GOOD.links[0], vxlan=Vxlan(vni=4097, port=4790))
    cluster.seen = replace(GOOD, links=(device,), fdb=())
    assert list(cluster.facts().deviations("l1", "w1")) == [
        "VNI of vxlan.calico on node l1",
        "UDP port of vxlan.calico on node l1",
        "forwarding of node l1 to the tunnel of node w1",
    ]


OWN = (RouteEntry(destination="10.0.0.11/32", gateway="", device="eth0", onlink=False, table=255),)


@pytest.mark.parametrize(
    ("announced", "told"),
    [
        ("10.0.0.11/24", "as announced"),
        ("10.0.0.99/24", "10.0.0.99 is announced, but the node does not have it"),
    ],
)
def test_a_linux_node_announces_one_of_its_own_addresses(announced: str, told: str) -> None:
    cluster = Cluster(replace(GOOD, routes=GOOD.routes + OWN))
    cluster.annotations["l1"] |= _notes(IPv4Address=announced)
    assert cluster.facts().routes("l1")["address of node l1"].value == told
    assert ("address of node l1" in cluster.facts().deviations("l1", "w1")) is (
        told != "as announced"
    )


@pytest.mark.parametrize(
    ("announced", "told"),
    [
        ("10.0.0.14/24", "as announced"),
        ("10.0.0.99/24", "10.0.0.99 is announced, but the node does not have it"),
    ],
)
def test_a_windows_node_announces_the_address_that_its_network_stands_on(
    announced: str, told: str
) -> None:
    cluster = Cluster()
    cluster.annotations["w1"] |= _notes(IPv4Address=announced)
    cluster.networks = [replace(network(4096), management_address="10.0.0.14")]
    assert cluster.facts().remote_subnets("w1")["address of node w1"].value == told


def test_a_node_that_announces_no_address_where_others_do_is_named() -> None:
    cluster = Cluster()
    cluster.networks = [replace(network(4096), management_address="10.0.0.14")]
    assert "address of node w1" not in cluster.facts().remote_subnets("w1")
    cluster.annotations["l1"] |= _notes(IPv4Address="10.0.0.11/24")
    fact = cluster.facts().remote_subnets("w1")["address of node w1"]
    assert fact.value == "none is announced"
    assert "annotation projectcalico.org/IPv4Address is missing" in fact.source
    assert "address of node w1" in cluster.facts().deviations("w1", "l1")


def test_nothing_is_said_of_an_announced_address_where_a_node_s_own_are_not_known() -> None:
    cluster = Cluster()
    cluster.annotations["w1"] |= _notes(IPv4Address="10.0.0.99/24")
    assert "address of node w1" not in cluster.facts().remote_subnets("w1")


def test_no_route_is_wanted_to_a_block_that_two_nodes_have() -> None:
    cluster = Cluster()
    cluster.beside("l2", "192.168.4.0/26", "192.168.4.9")
    assert cluster.facts().routes("l1") == {}


def test_a_vni_that_another_run_is_changing_says_nothing_of_a_node() -> None:
    cluster, asked = Cluster(), list[str]()
    cluster.networks = [network(4095)]

    def changed() -> str:
        asked.append("")
        return "run other is changing the cluster"

    nodes: Any = SimpleNamespace(nodes=tuple(cluster.nodes), by_os=lambda os: ())
    beside = VxlanFacts(cluster.objects_of(nodes), cluster, vni_changed=changed)  # type: ignore[arg-type]
    with pytest.raises(
        EnvironmentBroken,
        match="4095, but the configured VNI is 4096, while run other is changing the cluster",
    ):
        beside.vsid("w1")
    cluster.networks, asked = [network(4096)], []
    assert (only(beside.vsid("w1")), asked) == ("the configured VNI", [])
