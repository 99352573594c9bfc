# SPDX-License-Identifier: Apache-2.0
"""Facts about BGP on Windows nodes: sessions, the end that is down, announced blocks, and what a
dead path lacks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import MissingCapability, ProbeBroken
from conformance.facts.networks.bgp import REFLECTOR, BgpFacts
from conformance.facts.objects import CalicoObjects
from conformance.model.endpoint import OS
from conformance.model.facts import Fact, NodeFacts
from conformance.model.host import (
    BgpHost,
    BgpPeer,
    BgpRoute,
    HnsEndpoint,
    LinuxFacts,
    RouteEntry,
)
from conformance.probe import windows_host
from tests.unit.conformance.builders import a_node

ADDRESSES = {"l1": "10.0.0.11", "l2": "10.0.0.12", "w1": "10.0.0.14", "w2": "10.0.0.15"}
NOT_CONFIGURED = dict.fromkeys(
    ("router", "peer", "custom", "route"), "WIN32 0,Get-BgpPeer BGP is not configured."
)
UNKNOWN = dict.fromkeys(
    ("router", "peer", "custom", "route"), "CommandNotFoundException The term is not recognized"
)
LINUX = LinuxFacts(
    node="l1", links=(), fdb=(), neighbours=(),
    routes=(RouteEntry(destination="192.168.2.0/26", gateway="10.0.0.14", device="eth0", onlink=False, table=254),),
)  # fmt: skip


HOST_ENDPOINT = HnsEndpoint(
    id="E", name="Calico_ep", address="192.168.2.2", mac="00-15-5D-00-00-00", network="N"
)


def node(name: str) -> NodeFacts:
    address = ADDRESSES[name]
    told = {"projectcalico.org/IPv4Address": f"{address}/24"}
    os: OS = "windows" if name.startswith("w") else "linux"
    return a_node(name, os, address=address, annotations=told)


def host(own: str, down: tuple[str, ...] = (), **otherwise: Any) -> BgpHost:
    """One whose sessions with all others but some are up, and that learns their blocks."""
    others = [name for name in ADDRESSES if name != own]
    peers = [
        BgpPeer(
            name=f"Mesh_{name}",
            address=ADDRESSES[name],
            state="Connecting" if name in down else "Connected",
        )
        for name in others
    ]
    routes = [
        BgpRoute(network=cidr, next_hop=ADDRESSES[name], peer=f"Mesh_{name}")
        for name, cidr in blocks().items()
        if name in others and name not in down
    ]
    plain = BgpHost(
        service="Running",
        router="10.0.0.1 64512",
        peers=tuple(peers),
        custom_routes=(blocks()[own],),
        routes=tuple(routes),
    )
    return replace(plain, **otherwise)


def blocks() -> dict[str, str]:
    return {name: f"192.168.{number}.0/26" for number, name in enumerate(ADDRESSES)}


OF_A_NODE = {"serviceClusterIPs": [{"cidr": "0.0.0.0/0"}], "serviceExternalIPs": [{"cidr": "::/0"}]}
"""Calico advertises no services by configurations of other names than ``default``."""


def facts(
    *,
    configuration: Any = None,
    peering: Sequence[Any] = (),
    linux: LinuxFacts = LINUX,
    bare: Sequence[str] = (),
    **hosts: BgpHost,
) -> BgpFacts:
    nodes = tuple(map(node, ADDRESSES))
    cluster = SimpleNamespace(
        nodes=nodes,
        by_os=lambda os: tuple(one for one in nodes if one.os == os),
        mesh=Fact(True, "told"),
    )
    seen = {"w1": host("w1"), "w2": host("w2")} | hosts
    objects = {
        "BGPConfiguration": [
            {"metadata": {"name": "a"}, "spec": OF_A_NODE},
            {"metadata": {"name": "default"}, "spec": configuration or {}},
            {"metadata": {"name": "node.w1"}, "spec": OF_A_NODE},
        ],
        "BGPPeer": [{"metadata": {"name": "p"}, "spec": spec} for spec in peering],
        "IPPool": [{"metadata": {"name": "pool"}, "spec": {"cidr": "192.168.0.0/16"}}],
    }
    told = {
        f"blocks of node {name}": SimpleNamespace(value=[cidr]) for name, cidr in blocks().items()
    }
    calico = CalicoObjects(SimpleNamespace(), cluster)  # type: ignore[arg-type]  # only what is replaced below asks
    calico.blocks = lambda of_all=False: told  # type: ignore[method-assign,assignment,misc]
    calico.listed = lambda kind: (objects[kind], "v3")  # type: ignore[method-assign]
    looks = SimpleNamespace(
        bgp=seen.__getitem__,
        linux=lambda name: linux,
        hns_endpoints=lambda name: [] if name in bare else [HOST_ENDPOINT],
    )
    return BgpFacts(calico, looks, looked_into=("w1", "w2"))


def session(read: BgpFacts, windows: str, other: str) -> str | None:
    return read.sessions(windows)[f"BGP session of node {windows} with node {other}"].value


def test_sessions_that_are_up() -> None:
    read = facts()
    assert {fact.value for fact in read.sessions("w1").values()} == {"Connected"}
    assert len(read.sessions("w1")) == 3
    assert read.deviations("w1", "l1") == {}


@pytest.mark.parametrize(
    ("hosts", "other", "told"),
    [
        ({"w1": host("w1", service="Stopped")}, "l1",
         "none; the end that is down is node w1: service RemoteAccess is Stopped"),
        ({"w1": BgpHost(service="Running", errors=NOT_CONFIGURED)}, "l1",
         "none; the end that is down is node w1: BGP is not configured"),
        ({"w1": host("w1", ("l1", "l2", "w2"))}, "l1",
         "Connecting; the end that is down is node w1: it has no session at all"),
        ({"w1": host("w1", ("l1",)), "w2": host("w2", ("l1",))}, "l1",
         "Connecting; the end that is down is node l1: no Windows node has a session with it"),
        ({"w1": host("w1", ("l1",))}, "l1", "Connecting; only this session is down"),
        ({"w1": host("w1", ("w2",)), "w2": BgpHost(service="Running", errors=NOT_CONFIGURED)}, "w2",
         "Connecting; the end that is down is node w2: BGP is not configured"),
        ({"w1": host("w1", ("w2",)), "w2": host("w2", ("w1",))}, "w2", "Connecting; only this session is down"),
        ({"w1": host("w1", peers=host("w1").peers[1:])}, "l1", "no peer 10.0.0.11; only this session is down"),
        ({"w1": host("w1", peers=())}, "l1",
         "no peer 10.0.0.11; node w1 has no peer configured: see nodeToNodeMeshEnabled of BGPConfiguration, and BGPPeers"),
        ({"w1": BgpHost(service="Running", errors=UNKNOWN)}, "l1", None),
    ],
)  # fmt: skip
def test_a_session_that_is_not_up_names_the_end_that_is_down(
    hosts: Any, other: str, told: str | None
) -> None:
    assert session(facts(**hosts), "w1", other) == told


@pytest.mark.parametrize(
    ("hop", "told"),
    [
        ("10.0.0.12", "Connected, but its block 192.168.0.0/26 via 10.0.0.12, which is node l2"),
        ("10.0.0.15", "Connected, but its block 192.168.0.0/26 via 10.0.0.15, which is node w2"),
        ("10.0.0.1", "Connected"),
    ],
)
def test_a_session_that_brings_a_block_by_a_third_node_is_told(hop: str, told: str) -> None:
    routes = (
        BgpRoute(network="192.168.0.0/26", next_hop=hop, peer="Mesh_l2"),
        *host("w1").routes[1:],
    )
    read = facts(w1=host("w1", routes=routes))
    assert session(read, "w1", "l1") == told
    assert session(read, "w1", "l2") == "Connected"
    passed_on = facts(w1=host("w1", routes=routes), peering=[{"nextHopMode": "Self"}])
    assert session(passed_on, "w1", "l1") == "Connected"


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        (host("w1"), "Running"),
        (
            host("w1", service="Stopped", router="", errors={"router": "X it does not run"}),
            "Stopped",
        ),
        (
            host("w1", router="", errors={"router": "X broken"}),
            "Running, but Get-BgpRouter fails: X broken",
        ),
        (BgpHost(service="Running", errors=NOT_CONFIGURED), "Running"),
        (BgpHost(service="Running", errors=UNKNOWN), "Running"),
        (
            BgpHost(errors={"service": "NoServiceFoundForGivenName,X There is none", **UNKNOWN}),
            "none",
        ),
        (BgpHost(errors={"service": "Denied,X You may not", **UNKNOWN}), None),
    ],
)
def test_the_service_and_its_router(seen: BgpHost, status: str | None) -> None:
    assert [fact.value for fact in facts(w1=seen).service("w1").values()] == [status]


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (host("w1"), "its blocks"),
        (
            host("w1", custom_routes=("192.168.2.0/26", "10.96.0.0/12")),
            "its blocks and 10.96.0.0/12",
        ),
        (host("w1", custom_routes=()), "its blocks except 192.168.2.0/26"),
        (
            host("w1", custom_routes=("192.168.2.0/26", "192.168.3.0/26")),
            "192.168.3.0/26 outside its blocks",
        ),
        (
            host("w1", custom_routes=("192.168.2.0/26", "192.168.99.0/26")),
            "192.168.99.0/26 outside its blocks",
        ),
        (BgpHost(service="Running", errors=NOT_CONFIGURED), None),
    ],
)
def test_what_a_windows_node_announces(seen: BgpHost, told: str | None) -> None:
    assert [fact.value for fact in facts(w1=seen).announced("w1").values()] == [told]


def test_service_networks_are_asked_for_where_they_are_advertised_and_learned() -> None:
    wanted = {"serviceClusterIPs": [{"cidr": "10.96.0.0/12"}]}
    with pytest.raises(MissingCapability, match="advertises no service network"):
        facts().services("w1")
    learned = BgpRoute(network="10.96.0.0/12", next_hop="10.0.0.11", peer="Mesh_l1")

    def announced(seen: BgpHost) -> list[str] | None:
        (fact,) = facts(configuration=wanted, w1=seen).services("w1").values()
        return fact.value

    assert announced(host("w1")) is None, "nobody is seen to advertise it"
    assert announced(host("w1", routes=(learned,))) == []
    assert announced(host("w1", routes=(learned,), custom_routes=("10.96.0.0/16",))) == [
        "10.96.0.0/16"
    ]


ROUTER = {"peerIP": "10.0.0.250", "asNumber": 64600}


@pytest.mark.parametrize(
    "spec",
    [
        {"peerIP": "10.0.0.11"}, {"peerIP": "fd00::1"}, {"peerSelector": "rack == 'a'"}, ROUTER | {"node": "w2"},
        ROUTER | {"nodeSelector": "rack == 'a'"},
    ],
)  # fmt: skip
def test_without_a_router_that_is_its_peer_nothing_is_asked_of_a_node(spec: dict[str, Any]) -> None:
    with pytest.raises(
        MissingCapability, match="no BGPPeer makes a router outside the cluster a peer of node w1"
    ):
        facts(peering=[spec]).external("w1")


def test_routers_that_are_to_be_peers() -> None:
    peer = BgpPeer(name="Global_10_0_0_250", address="10.0.0.250", state="Connected")
    route = BgpRoute(network="172.16.0.0/16", next_hop="10.0.0.250", peer=peer.name)

    def told(seen: BgpHost, spec: dict[str, Any] = ROUTER) -> list[str | None]:
        return [fact.value for fact in facts(peering=[spec], w1=seen).external("w1").values()]

    whole = host("w1", peers=(peer,), routes=(route,))
    assert told(whole) == told(whole, {"peerIP": "10.0.0.250:179", "node": "w1"}) == ["Connected"]
    assert told(host("w1", peers=(peer,), routes=())) == ["Connected, but no route from this peer"]
    assert told(host("w1", peers=(peer._replace(state="Connecting"),))) == ["Connecting"]
    assert told(host("w1")) == ["no peer 10.0.0.250; check confd on the node"], (
        "what the host does not know is missing"
    )
    silent = host("w1", peers=(), routes=(), errors=NOT_CONFIGURED)
    assert told(silent) == ["no peer 10.0.0.250; BGP is not configured"]
    assert told(replace(silent, errors=UNKNOWN)) == [None]
    assert told(whole, ROUTER | {"nodeSelector": "has("}) == [None]


def test_what_a_dead_path_lacks() -> None:
    read = facts(w1=host("w1", ("l1",)), w2=host("w2", routes=()))
    assert [*read.deviations("w1", "l1")] == ["BGP session of node w1 with node l1"]
    assert [*read.deviations("l1", "w1")] == ["BGP session of node w1 with node l1"], (
        "asked at the end that can say"
    )
    assert read.deviations("w2", "l1") == {}, (
        "what it learns is not known where it shows nothing at all"
    )
    assert facts().deviations("l1", "w1") == {}
    found = read.deviations("l1", "w2")
    assert {name: fact.value for name, fact in found.items()} == {
        "route of node l1 to block 192.168.3.0/26 of node w2": "no route"
    }
    other = replace(LINUX, routes=(replace(LINUX.routes[0], gateway="10.0.0.99"),))
    (fact,) = facts(linux=other).deviations("l1", "w1").values()
    assert fact.value == "via 10.0.0.99, not via the node's address 10.0.0.14"


def test_a_host_without_its_endpoint_among_the_pods_is_told_last() -> None:
    lacking = {"endpoint Calico_ep of node w1, the gateway of its pods": "none"}
    read = facts(bare=["w1"])
    for ends in (("w1", "l1"), ("l1", "w1")):
        assert {name: fact.value for name, fact in read.deviations(*ends).items()} == lacking
    down = facts(bare=["w1"], w1=host("w1", ("l1",)))
    assert [*down.deviations("w1", "l1")] == ["BGP session of node w1 with node l1"]


@pytest.mark.parametrize(
    ("hop", "lack"),
    [
        ("10.0.0.1", None),
        ("10.0.1.14", "via 10.0.1.14, which is outside the subnet 10.0.0.0/24"),
        ("", "no route"),
    ],
)
def test_to_another_subnet_any_router_of_the_own_one_is_right(
    monkeypatch: pytest.MonkeyPatch, hop: str, lack: str | None
) -> None:
    monkeypatch.setitem(ADDRESSES, "w1", "10.0.1.14")
    routed = replace(LINUX, routes=(replace(LINUX.routes[0], gateway=hop),))
    assert [fact.value for fact in facts(linux=routed).deviations("l1", "w1").values()] == (
        [lack] if lack else []
    )


def test_the_program_has_nothing_that_a_command_line_of_windows_changes() -> None:
    assert not set('"%^\n') & set(windows_host.BGP)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"service": "Running"',
        '{"service": "Running"}',
        '{"peer": {"name": "Mesh"}, "errors": {}}',
        '{"peer": "Mesh", "errors": {}}',
        '{"router": {"id": "10.0.0.1"}, "errors": {}}',
    ],
)
def test_an_output_that_is_cut_off_or_garbled_is_a_broken_probe(text: str) -> None:
    with pytest.raises(ProbeBroken, match=r"node w1: bgp\.ps1 printed"):
        windows_host.bgp_host(text, "node w1")


def test_names_with_blanks_routes_without_a_peer_and_errors_of_several_lines_are_read() -> None:
    text = json.dumps(
        {
            "service": "Running",
            "router": {"id": "", "as": "64512"},
            "peer": [
                {"name": "ToR 1", "address": "10.0.0.1", "state": "Connected"},
                {"name": "", "address": "10.0.0.2", "state": ""},
            ],
            "custom": {},
            "route": {"network": "192.168.1.0/26", "next_hop": "", "peer": ""},
            "errors": {"custom": {"id": "WIN32 0,Get-BgpCustomRoute", "message": "two\nlines"}},
        }
    )
    assert windows_host.bgp_host(text, "node w1") == BgpHost(
        service="Running",
        router="64512",
        peers=(BgpPeer("ToR 1", "10.0.0.1", "Connected"), BgpPeer("", "10.0.0.2", "")),
        routes=(BgpRoute("192.168.1.0/26", "", ""),),
        errors={"custom": "WIN32 0,Get-BgpCustomRoute two\nlines"},
    )


def reflected(own: str = "w1", down: tuple[str, ...] = (), by: str = "l1") -> BgpHost:
    """A host whose only peer is one node, which passes on the blocks of all but some others."""
    peer = BgpPeer(name=f"Node_{by}", address=ADDRESSES[by], state="Connected")
    routes = tuple(
        BgpRoute(network=cidr, next_hop=ADDRESSES[name], peer=peer.name)
        for name, cidr in blocks().items()
        if name not in {own, *down}
    )
    return host(own, peers=(peer,), routes=routes)


def route_of(read: BgpFacts, other: str) -> str | None:
    name = f"route of node w1 to block {blocks()[other]} of node {other}"
    return read.reflected("w1")[name].value


def test_blocks_of_nodes_that_are_no_peers_come_by_a_linux_reflector() -> None:
    read = facts(w1=reflected())
    found = read.reflected("w1")
    assert {fact.value for fact in found.values()} == {read.BY_A_REFLECTOR}
    assert len(found) == 2, "the reflector's own block comes by its own session"


def test_a_block_that_the_reflector_does_not_pass_on_is_named_with_its_session() -> None:
    read = facts(w1=reflected(down=("w2",)))
    told = "none; sessions: Connected with node l1, which has no route reflector cluster ID"
    assert route_of(read, "w2") == told
    assert route_of(read, "l2") == read.BY_A_REFLECTOR


def test_a_block_learned_from_a_windows_peer_is_not_reflected() -> None:
    both = reflected()
    peers = (*both.peers, BgpPeer(name="Node_w2", address=ADDRESSES["w2"], state="Connected"))
    routes = tuple(route._replace(peer="Node_w2") for route in both.routes)
    read = facts(w1=replace(both, peers=peers, routes=routes))
    assert str(route_of(read, "l2")).startswith(
        "learned from Node_w2, which is not a Linux node; sessions:"
    )


@pytest.mark.parametrize(
    "observed",
    [host("w1"), host("w1", peers=()), reflected(by="w2")],
    ids=["all-are-peers", "no-peer", "no-linux-peer"],
)
def test_where_nothing_could_be_reflected_nothing_is_decided(observed: BgpHost) -> None:
    with pytest.raises(MissingCapability, match="node w1 has no Linux peer"):
        facts(w1=observed).reflected("w1")


@pytest.mark.parametrize(
    ("errors", "value"), [(NOT_CONFIGURED, "none, BGP is not configured"), (UNKNOWN, None)]
)
def test_a_host_that_cannot_say_its_routes_lacks_them_only_where_bgp_is_not_configured(
    errors: dict[str, str], value: str | None
) -> None:
    read = facts(w1=BgpHost(service="Running", errors=errors))
    assert read.reflected("w1")["route reflectors of node w1"].value == value


def test_a_reflector_in_the_mesh_is_named_as_one() -> None:
    read = facts(w1=host("w1", ("l1",)), w2=host("w2", ("l1",)))
    nodes = [
        replace(one, annotations=one.annotations | {REFLECTOR: "244.0.0.1"})
        if one.name == "l1"
        else one
        for one in read._calico.facts.nodes
    ]
    read._calico.facts.nodes = tuple(nodes)  # type: ignore[misc]
    state = session(read, "w1", "l1")
    assert str(state).startswith("Connecting; node l1 is a route reflector and has left the mesh")


@pytest.mark.parametrize(
    ("mesh", "observed", "blamed"),
    [
        (False, reflected(), ""),
        (False, reflected(down=("l2",)), "route of node w1 to block"),
        (False, host("w1", peers=()), "BGP session of node w1 with node l2"),
        (True, reflected(), "BGP session of node w1 with node l2"),
    ],
    ids=["reflected", "not-passed-on", "no-peer-at-all", "in-the-mesh"],
)
def test_without_a_mesh_a_session_that_nobody_configured_is_not_missed(
    mesh: bool, observed: BgpHost, blamed: str
) -> None:
    read = facts(w1=observed)
    read._calico.facts.mesh = Fact(mesh, "told")  # type: ignore[misc]
    found = list(read.deviations("w1", "l2"))
    assert [name[: len(blamed)] for name in found] == ([blamed] if blamed else [])
