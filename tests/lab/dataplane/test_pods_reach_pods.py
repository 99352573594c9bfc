"""Every pair of node kinds, real packets, and the source address that the far end sees."""

from __future__ import annotations

import pytest

PAIRS = [("l1a", "l1b"), ("l1a", "l2a"), ("l1a", "w1a"), ("w1a", "l1a"), ("w1a", "w1b"), ("w1a", "w2a")]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_pod_reaches_a_pod_and_keeps_its_address(lab, source, target):
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
def test_a_node_reaches_pods_with_its_own_or_its_tunnel_address(lab, node, target, seen):
    answer = lab.tcp(f"node:{node}", target)
    assert (answer.outcome, answer.source) == ("open", seen)


def test_an_address_of_a_block_without_a_pod_is_silent(lab):
    assert lab.attempt("l1a", "192.168.1.190", 8080).outcome == "timed out"


def test_a_pod_leaving_the_pools_carries_its_nodes_address(lab):
    with lab.listening("node:l2") as listeners:
        answer = lab.attempt("l1a", "10.0.0.12", 8080, listeners["node:l2"])
    assert (answer.outcome, answer.source) == ("open", "10.0.0.11")


def test_a_pod_reaches_its_own_node_with_its_own_address(lab):
    with lab.listening("node:l1") as listeners:
        answer = lab.attempt("l1a", "10.0.0.11", 8080, listeners["node:l1"])
    assert (answer.outcome, answer.source) == ("open", lab.address("l1a"))


def test_an_address_is_usable_again_once_its_pod_is_removed(lab):
    async def replace():
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
