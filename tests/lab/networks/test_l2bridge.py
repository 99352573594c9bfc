# SPDX-License-Identifier: Apache-2.0
"""On l2bridge networks pods' packets cross the underlay without encapsulation. A plane that
encapsulates them is noticed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hybridlab.dataplane.model import DirectRoute
from hybridlab.networks.contract.plane import NodeProgram
from hybridlab.networks.l2bridge.plane import BIRD, L2Bridge
from hybridlab.networks.vxlan.plane import Vxlan
from hybridlab.profiles.load import load
from tests.lab.calico.conftest import CalicoLab, calico_lab, six_pods
from tests.lab.dataplane.test_underlay import capture, frames

SETTINGS = ("network.plane.kind=l2bridge", "calico.version=v3.31.7")
PAIRS = (("l1", "l2"), ("l1", "w1"), ("w1", "l1"), ("w1", "w2"))
"""Pods of different nodes, of every mix of systems."""


@pytest.fixture(scope="module")
def lab() -> Iterator[CalicoLab]:
    with calico_lab(*SETTINGS) as made:
        yield six_pods(made)


def seen(lab: CalicoLab, source: str, target: str) -> tuple[bool, list[str]]:
    """Return whether one connection between nodes is on the underlay as UDP 4789, and the
    directions in which no packet has the pods' own addresses."""
    client, server = lab.addresses[source], lab.addresses[target]
    with capture(lab, "fabric") as sock:
        assert lab.attempt(source, target) == client, "it connects, and keeps its source"
        captured = [frame for frame in frames(sock) if frame[12:14] == b"\x08\x00"]
    ends = {
        (socket.inet_ntoa(f[26:30]), socket.inet_ntoa(f[30:34]))
        for f in captured
        if f[23] == socket.IPPROTO_TCP
    }
    udp = [int.from_bytes(f[36:38], "big") for f in captured if f[23] == socket.IPPROTO_UDP]
    return 4789 in udp, [
        f"no packet {way}" for way in ((client, server), (server, client)) if way not in ends
    ]


def complaints(lab: CalicoLab, source: str, target: str) -> list[str]:
    """Return the differences of one connection between nodes from a network without
    encapsulation."""
    hidden, missing = seen(lab, source, target)
    return [*(["UDP 4789 on the underlay"] if hidden else []), *missing]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_underlay_carries_pods_packets_as_they_are(
    lab: CalicoLab, source: str, target: str
) -> None:
    assert complaints(lab, source, target) == []


def test_a_plane_that_carries_them_over_vxlan_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = Vxlan(load("default"))

    def program(self: L2Bridge, node: str, facts: Any, felix: Any, windows: Any) -> NodeProgram:
        return hidden.program(node, facts, felix, None)

    monkeypatch.setattr(
        L2Bridge, "claim", lambda self, machine, addresses: hidden.claim(machine, addresses)
    )
    monkeypatch.setattr(
        L2Bridge, "node_end", lambda self, name, annotations: hidden.node_end(name, annotations)
    )
    monkeypatch.setattr(L2Bridge, "program", program)
    with calico_lab(*SETTINGS) as made:
        six_pods(made)
        assert [
            pair for pair in PAIRS if "UDP 4789 on the underlay" not in complaints(made, *pair)
        ] == []


HIDDEN, BARE = (True, 2), (False, 0)
"""Whether UDP 4789 is on the underlay, and how many ways no packet of the pods' own is."""


def test_an_overlay_hides_pods_packets() -> None:
    with calico_lab() as made:
        six_pods(made)
        found = {pair: seen(made, *pair) for pair in PAIRS}
    assert {(hidden, len(missing)) for hidden, missing in found.values()} == {HIDDEN}


def test_an_overlay_that_carries_pods_packets_as_they_are_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true = Vxlan.program

    def program(self: Vxlan, node: str, facts: Any, felix: Any, windows: Any) -> NodeProgram:
        made = true(self, node, facts, felix, windows)
        blocks = made.routes.remote_blocks
        direct = tuple(
            DirectRoute(cidr=block.cidr, via=block.node_address, protocol=BIRD) for block in blocks
        )
        return replace(made, routes=replace(made.routes, remote_blocks=(), direct=direct))

    monkeypatch.setattr(Vxlan, "program", program)
    with calico_lab() as made:
        six_pods(made)
        hidden, missing = seen(made, "l1", "l2")
        assert (hidden, len(missing)) == BARE
        # An overlay network of HNS has no endpoint for packets without the tunnel.
        assert {made.attempt("l1", "w1"), made.attempt("w1", "w2")} == {"timed out"}


def test_nodes_have_routes_by_bird_and_no_tunnel(lab: CalicoLab) -> None:
    for node, machine in lab.calico.nodes.items():
        facts: Any = lab.run(lab.plane.facts(node))
        assert "vxlan" not in {link.get("kind") for link in facts["links"]}
        by_bird = {route["dst"]: route for route in facts["routes"] if route["protocol"] == BIRD}
        blocks = {str(block.cidr): block.node for block in lab.calico.ipam.blocks()}
        assert by_bird.keys() == blocks.keys()
        for cidr, owner in blocks.items():
            way = by_bird[cidr]
            if owner == node:
                assert way["type"] == "blackhole"
            else:
                assert (way["gateway"], way["dev"]) == (lab.calico.nodes[owner].address, "eth0")
        obj = lab.run(lab.client.get("nodes", machine.name))
        assert [name for name in obj["metadata"]["annotations"] if "VXLAN" in name] == []


def test_a_windows_host_has_an_endpoint_among_its_pods_which_is_their_gateway(
    lab: CalicoLab,
) -> None:
    hns = lab.calico.windows["windows-2022"].hns
    block = lab.calico.ipam.networks_of("windows-2022")[0]
    own = f"{block.rpartition('.')[0]}.{int(block.rpartition('.')[2].partition('/')[0]) + 2}"
    assert hns.pod_network is not None
    assert (hns.pod_network.spec.type, hns.pod_network.vsid, hns.host_endpoint) == (
        "L2Bridge",
        None,
        own,
    )
    assert hns.pod_network.spec.pods_gateway == own
    facts: Any = lab.run(lab.plane.facts("windows-2022"))
    assert ("Calico_ep", own) in {(item["dev"], item["local"]) for item in facts["addresses"]}
    uid = lab.pods["w1"]["metadata"]["uid"]
    allowed = lab.calico.felixes["windows-2022"].acls[uid]
    from_host = next(entry for entry in allowed if entry.get("Id") == "allow-host-to-endpoint")
    assert f"{own}/32" in str(from_host["RemoteAddresses"])


def blocks_routed(lab: CalicoLab, node: str) -> set[str]:
    """The nodes whose blocks the kernel of a node has routes to."""
    facts: Any = lab.run(lab.plane.facts(node))
    blocks = {str(block.cidr): block.node for block in lab.calico.ipam.blocks()}
    by_bird = {
        route["dst"]
        for route in facts["routes"]
        if route["protocol"] == BIRD and route["type"] != "blackhole"
    }
    return {blocks[cidr] for cidr in by_bird}


@pytest.mark.parametrize(
    ("fault", "parameters", "lost"),
    [
        ("bgp-stopped", {"node": "linux-1"}, {"linux-1"}),
        ("bgp-stopped", {"node": "windows-2022"}, {"windows-2022"}),
        ("confd-silent", {"node": "windows-2022"}, {"windows-2022"}),
        ("block-not-announced", {"node": "windows-2022"}, {"windows-2022"}),
        ("next-hop-astray", {"node": "windows-2022"}, {"windows-2022"}),
        ("bgp-peer-down", {"node": "linux-1", "to": "windows-2022"}, set()),
    ],
)
def test_what_is_wrong_with_bgp_is_in_the_routes_of_others(
    lab: CalicoLab, fault: str, parameters: dict[str, str], lost: set[str]
) -> None:
    before = blocks_routed(lab, "linux-2")
    identity = lab.run(lab.injector.inject(fault, parameters))
    assert before - blocks_routed(lab, "linux-2") == lost
    assert lab.attempt("l1", "w1") != lab.addresses["l1"]
    lab.run(lab.injector.heal(identity))
    assert blocks_routed(lab, "linux-2") == before
    assert lab.attempt("l1", "w1") == lab.addresses["l1"]


@pytest.mark.parametrize(
    ("fault", "parameters"),
    [("source-check-on", {"node": "linux-1"}), ("host-endpoint-missing", {"node": "windows-2022"})],
)
def test_a_fabric_that_checks_and_a_host_without_its_endpoint_stop_pods_packets(
    lab: CalicoLab, fault: str, parameters: dict[str, str]
) -> None:
    identity = lab.run(lab.injector.inject(fault, parameters))
    assert lab.attempt("l1", "w1") == "timed out"
    assert lab.attempt("l1", "l1b") == lab.addresses["l1"], "within a node"
    lab.run(lab.injector.heal(identity))
    assert lab.attempt("l1", "w1") == lab.addresses["l1"]
