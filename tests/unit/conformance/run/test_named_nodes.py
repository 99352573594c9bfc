# SPDX-License-Identifier: Apache-2.0
"""Nodes that options name exist, fit, and are not the run's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import UsageProblem
from conformance.run.run import check_nodes, check_own_node
from conformance.schedule.plan import check_disruptable
from tests.unit.conformance.builders import a_node, a_windows_node, some_facts

FACTS = some_facts(a_node("l1"), a_windows_node("w1"))


@pytest.mark.parametrize("names", [[], [""], ["l1"], ["l1", "w1"]])
def test_nodes_of_the_cluster_may_be_named(names: list[str]) -> None:
    check_nodes("--nodes", names, FACTS)


def test_a_node_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageProblem) as caught:
        check_nodes("--nodes", ["l1", "w9"], FACTS)
    assert str(caught.value) == (
        "--nodes w9: this cluster has no such node; its nodes are l1 (linux), w1 (windows)"
    )


@pytest.mark.parametrize(
    ("name", "own", "refused"),
    [("", "", False), ("w1", "", False), ("w1", "l1", False), ("w1", "w1", True)],
)
def test_a_run_changes_no_node_that_it_is_on(name: str, own: str, refused: bool) -> None:
    pod: Any = SimpleNamespace(node=own) if own else None
    if not refused:
        check_own_node(name, pod)
        return
    with pytest.raises(
        UsageProblem, match="--disruptive-node w1: this run's own pod is on that node"
    ):
        check_own_node(name, pod)


def test_a_node_of_an_operating_system_that_no_claim_has_alone_is_refused() -> None:
    check_disruptable("", FACTS)
    check_disruptable("w1", FACTS)
    with pytest.raises(UsageProblem, match=r"--disruptive-node x: .*; name .*w1"):
        check_disruptable("x", FACTS)
