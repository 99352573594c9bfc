# SPDX-License-Identifier: Apache-2.0
"""Every Windows build is covered, even above the limit; of Linux nodes the most different ones;
more nodes up to the limit."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.model.facts import NodeFacts
from conformance.pods.coverage import covered, subnet, unlike_covered
from conformance.pods.placement import Placement
from conformance.settings import Cover
from tests.unit.conformance.builders import a_node, a_windows_node, some_facts


def names(found: Any) -> list[str]:
    return [item.node.name for item in found]


@pytest.fixture
def windows() -> list[NodeFacts]:
    builds = [20348, 20348, 20348, 26100, 17763, 17763]
    return [a_windows_node(f"w{number}", build) for number, build in enumerate(builds, 1)]


def test_one_of_each_build_is_covered_even_beyond_the_cap(windows: list[NodeFacts]) -> None:
    newer = a_windows_node("w7", 17763, windows_build=(17763, 6414))
    found = covered("windows", [*windows, newer], Cover(at_most=1))
    assert names(found) == ["w1", "w4", "w5", "w7"]
    assert [item.why for item in found] == [
        "build 20348",
        "build 26100",
        "build 17763 before .1432",
        "build 17763",
    ]


def test_up_to_the_cap_more_are_covered(windows: list[NodeFacts]) -> None:
    assert names(covered("windows", windows, Cover(at_most=5))) == ["w1", "w2", "w3", "w4", "w5"]


def linux(name: str, address: str, kernel: str = "6.1") -> NodeFacts:
    said = {"projectcalico.org/IPv4Address": address}
    return a_node(name, annotations=said, kernel_version=kernel)


def test_linux_has_other_subnets_first_then_other_kernels_up_to_the_cap() -> None:
    nodes = [
        linux("a", "10.0.0.1/24"), linux("b", "10.0.0.2/24"), linux("c", "10.0.1.1/24", "5.15"),
        linux("d", "10.0.0.3/24", "5.10"), linux("e", "10.0.0.4/24", "5.15"),
    ]  # fmt: skip
    assert subnet(nodes[2]) == "10.0.1.0/24"
    for at_most, expected in enumerate(("a", "ac", "acd", "acde", "abcde"), 1):
        found = covered("linux", nodes, Cover(at_most=at_most))
        assert "".join(sorted(names(found))) == expected
    found = covered("linux", nodes, Cover(at_most=3))
    assert [item.why for item in found] == [
        "kernel 6.1 in 10.0.0.0/24", "kernel 5.15 in 10.0.1.0/24", "kernel 5.10 in 10.0.0.0/24"
    ]  # fmt: skip
    assert unlike_covered(nodes, [item.node for item in found]) == ["kernel 5.15 in 10.0.0.0/24"]


def test_sixty_nodes_with_a_prefix_of_one_address_each_are_three() -> None:
    nodes = [linux(f"n{number}", f"10.0.0.{number}/32") for number in range(1, 61)]
    assert subnet(nodes[0]) == ""
    assert names(covered("linux", nodes, Cover())) == ["n1", "n2", "n3"]


def test_six_subnets_of_four_kernels_stay_below_the_cap() -> None:
    nodes = [
        linux(f"n{net}{kernel}", f"10.0.{net}.1/24", f"6.{kernel}")
        for net in range(6)
        for kernel in range(4)
    ]
    assert names(covered("linux", nodes, Cover())) == ["n00", "n10", "n20"]
    assert len(unlike_covered(nodes, nodes[:3])) == 21


def test_a_control_plane_is_covered_only_where_no_path_would_be_without_it() -> None:
    plane = a_node("cp", control_plane=True)
    assert names(covered("linux", [a_node("l1"), plane], Cover())) == ["l1", "cp"]
    assert names(covered("linux", [a_node("l1"), a_node("l2"), plane], Cover())) == [
        "l1",
        "l2",
    ]


def test_who_names_nodes_gets_exactly_those_of_their_system(windows: list[NodeFacts]) -> None:
    cover = Cover(nodes=("w2", "w6"))
    assert names(covered("windows", windows, cover)) == ["w2", "w6"]
    assert names(covered("linux", [a_node("l1")], cover)) == ["l1"]


def test_a_selector_takes_the_nodes_with_all_its_labels() -> None:
    nodes = [
        a_node("a", labels={"pool": "x", "zone": "1"}),
        a_node("b", labels={"pool": "x"}),
    ]
    assert names(covered("linux", nodes, Cover(selector="pool=x,zone"))) == ["a"]
    assert names(covered("linux", nodes, Cover(selector="pool=x"))) == ["a", "b"]
    assert names(covered("linux", nodes, Cover(selector="pool=y"))) == [
        "a",
        "b",
    ]  # none: as if nothing were named


def test_every_node_is_every_node(windows: list[NodeFacts]) -> None:
    assert len(covered("windows", windows, Cover(every=True))) == 6


def test_workers_take_turns_over_the_covered_nodes_alone(windows: list[NodeFacts]) -> None:
    facts = some_facts(a_node("l"), *windows)
    placement = Placement(facts, turn=1, cover=Cover(at_most=3))
    assert [node.name for node in placement.covered("windows")] == ["w4", "w5", "w1"]
    assert [node.name for node in placement.one_per_build()] == ["w4", "w5", "w1"]
    assert [placement.number(name) for name in ("w1", "w6", "l")] == [1, 6, 1]
