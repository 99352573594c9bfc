# SPDX-License-Identifier: Apache-2.0
"""Between nodes of two subnets, pods' packets cross a router: without encapsulation by BGP,
inside the tunnel's packets by VXLAN."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.lab.calico.conftest import CalicoLab, calico_lab
from tests.lab.dataplane.test_primitives import bare_packets
from tests.lab.dataplane.test_underlay import capture, encapsulated, frames

PODS = {"l1": "linux-1", "w1": "windows-2022", "l2": "linux-far", "w2": "windows-2019"}
BEYOND = (("l1", "w2"), ("w1", "l2"), ("w2", "w1"))
BESIDE = (("l1", "w1"), ("w2", "l2"))


def town(profile: str) -> Iterator[CalicoLab]:
    with calico_lab(profile=profile) as made:
        for name, node in PODS.items():
            made.pod(name, node, app=name)
        yield made


@pytest.fixture(scope="module")
def bgp() -> Iterator[CalicoLab]:
    yield from town("dual-subnet")


@pytest.fixture(scope="module")
def vxlan() -> Iterator[CalicoLab]:
    yield from town("vxlan-dual-subnet")


@pytest.mark.parametrize(
    ("pair", "hops"), [*((pair, {63, 62}) for pair in BEYOND), *((pair, {63}) for pair in BESIDE)]
)
def test_by_bgp_a_router_forwards_pods_own_packets(
    bgp: CalicoLab, pair: tuple[str, str], hops: set[int]
) -> None:
    client = bgp.addresses[pair[0]]
    with capture(bgp, "fabric") as sock:
        assert bgp.attempt(*pair) == client
        captured = frames(sock)
    assert list(encapsulated(captured)) == []
    assert {ttl for source, _, ttl in bare_packets(captured) if source == client} == hops


@pytest.mark.parametrize("pair", BEYOND)
def test_by_vxlan_a_router_forwards_nodes_packets_and_sees_no_pod(
    vxlan: CalicoLab, pair: tuple[str, str]
) -> None:
    client = vxlan.addresses[pair[0]]
    with capture(vxlan, "fabric") as sock:
        assert vxlan.attempt(*pair) == client
        captured = frames(sock)
    assert list(bare_packets(captured)) == []
    outer = {
        frame[22]
        for frame in captured
        if frame[12:14] == b"\x08\x00" and frame[23] == socket.IPPROTO_UDP
    }
    assert len(outer) == 2, "before the router and behind it"
    assert list(encapsulated(captured))


def test_a_router_that_is_told_nothing_of_a_block_leads_nobody_there(bgp: CalicoLab) -> None:
    identity = bgp.run(bgp.injector.inject("next-hop-astray", {"node": "windows-2019"}))
    bgp.run(bgp.settled())
    assert bgp.attempt("l1", "w2") == "timed out"
    assert bgp.attempt("l1", "w1") == bgp.addresses["l1"]
    bgp.run(bgp.injector.heal(identity))
    bgp.run(bgp.settled())
    assert bgp.attempt("l1", "w2") == bgp.addresses["l1"]


def test_a_fault_of_the_wire_takes_what_is_routed_as_well(vxlan: CalicoLab) -> None:
    identity = vxlan.run(vxlan.injector.inject("udp4789-dropped", {"scope": "all"}))
    assert vxlan.attempt("l1", "w2") == "timed out"
    vxlan.run(vxlan.injector.heal(identity))
    assert vxlan.attempt("l1", "w2") == vxlan.addresses["l1"]
