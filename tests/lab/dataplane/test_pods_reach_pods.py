# SPDX-License-Identifier: Apache-2.0
"""Pods of every pair of node kinds, with real packets, and the source address that the server
receives."""

from __future__ import annotations

from typing import Any

import pytest

from hybridlab.dataplane.contract import DataplaneError
from hybridlab.dataplane.model import PodSpec
from tests.lab.dataplane.conftest import Lab

VXLAN_PORT = 4789
PAIRS = [
    ("l1a", "l1b"),
    ("l1a", "l2a"),
    ("l1a", "w1a"),
    ("w1a", "l1a"),
    ("w1a", "w1b"),
    ("w1a", "w2a"),
]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_pod_reaches_a_pod_and_keeps_its_address(lab: Lab, source: Any, target: Any) -> None:
    answer = lab.tcp(source, target)
    assert (answer.outcome, answer.source) == ("open", lab.address(source))


@pytest.mark.parametrize(
    ("node", "target", "seen"),
    [
        ("l1", "l1a", "10.0.0.11"),
        ("w1", "w1a", "10.0.0.13"),
        ("l1", "l2a", "192.168.1.0"),
        ("l1", "w1a", "192.168.1.0"),
        ("w1", "l1a", "192.168.1.129"),
    ],
)
def test_a_node_reaches_pods_with_its_own_or_its_tunnel_address(
    lab: Lab, node: str, target: str, seen: str
) -> None:
    answer = lab.tcp(f"node:{node}", target)
    assert (answer.outcome, answer.source) == ("open", seen)


def test_an_address_of_a_block_without_a_pod_is_silent(lab: Lab) -> None:
    assert lab.attempt("l1a", "192.168.1.190", 8080).outcome == "timed out"


def test_a_pod_leaving_the_pools_carries_its_nodes_address(lab: Lab) -> None:
    with lab.listening("node:l2") as listeners:
        answer = lab.attempt("l1a", "10.0.0.12", 8080, listeners["node:l2"])
    assert (answer.outcome, answer.source) == ("open", "10.0.0.11")


def test_a_pod_reaches_its_own_node_with_its_own_address(lab: Lab) -> None:
    with lab.listening("node:l1") as listeners:
        answer = lab.attempt("l1a", "10.0.0.11", 8080, listeners["node:l1"])
    assert (answer.outcome, answer.source) == ("open", lab.address("l1a"))


def test_an_address_is_usable_again_once_its_pod_is_removed(lab: Lab) -> None:
    async def replace() -> None:
        spec = await lab.add_pod("l1", "c")
        await lab.open_all("l1")
        await lab.plane.remove_pod(spec.id)
        await lab.add_pod("l1", "c")
        await lab.open_all("l1")

    lab.run(replace())
    try:
        assert lab.tcp("w1a", "l1c").outcome == "open"
    finally:
        lab.run(lab.plane.remove_pod("l1c"))
        del lab.pods["l1c"]


def connections_with(lab: Lab, node: Any, address: Any) -> list[Any]:
    facts: Any = lab.run(lab.plane.facts(node))
    return [
        c
        for c in facts["connections"]
        if address in (c["original"]["source"], c["original"]["destination"])
    ]


def test_who_gets_an_address_next_does_not_inherit_its_connections(lab: Lab) -> None:
    spec = lab.run(lab.add_pod("l1", "f"))
    assert spec.address
    lab.run(lab.open_all("l1"))
    assert lab.tcp("l2a", spec.id).outcome == "open"
    (connection,) = connections_with(lab, "l1", spec.address)
    assert (connection["protocol"], connection["original"]["source"]) == ("tcp", lab.address("l2a"))
    lab.run(lab.plane.remove_pod(spec.id))
    assert lab.attempt("l2a", spec.address, 8080).outcome == "timed out"
    lab.run(lab.add_pod("l1", "f"))
    assert connections_with(lab, "l1", spec.address) == []
    lab.run(lab.plane.remove_pod(spec.id))
    del lab.pods[spec.id]


@pytest.mark.parametrize("node", ["l1", "w1"])
def test_the_overlays_own_packets_are_not_tracked(lab: Lab, node: str) -> None:
    assert lab.tcp("l1a", "w1a").outcome == "open"
    facts: Any = lab.run(lab.plane.facts(node))
    carried = [
        c for c in facts["connections"] if lab.address("w1a") == c["original"]["destination"]
    ]
    carriers = [c for c in facts["connections"] if c["original"]["destination_port"] == VXLAN_PORT]
    assert (len(carried) > 0, carriers) == (True, [])


def test_a_host_network_pod_is_its_node_and_leaves_it_whole(lab: Lab) -> None:
    spec = PodSpec(id="host", node="l2", name="host", namespace="default", address=None)
    lab.run(lab.plane.add_pod(spec))
    with lab.listening("host") as listeners:
        answer = lab.attempt("l1a", "10.0.0.12", 8080, listeners["host"])
    assert answer.outcome == "open"
    lab.run(lab.plane.remove_pod("host"))
    assert lab.tcp("node:l2", "l2a").outcome == "open"
    with pytest.raises(
        DataplaneError, match="there is no sandbox host: it was never added, or it was removed"
    ):
        lab.socket("host")


def test_the_same_pod_twice_is_refused_and_the_first_lives_on(lab: Lab) -> None:
    with pytest.raises(DataplaneError, match="default/l1a: a sandbox with id l1a already exists"):
        lab.run(lab.plane.add_pod(lab.pods["l1a"]))
    with pytest.raises(DataplaneError, match="there is no node l9; nodes: l1, l2, w1, w2"):
        lab.run(
            lab.plane.add_pod(
                PodSpec(id="x", node="l9", name="x", namespace="d", address="192.168.1.9")
            )
        )
    assert lab.tcp("l2a", "l1a").outcome == "open"
