# SPDX-License-Identifier: Apache-2.0
"""The workers' use is added up per node, and the use at any one time is computed from the
intervals of all workers."""

from __future__ import annotations

import pytest

from conformance.model.probing import Interval, NodeCost, Probing
from conformance.report.probing import at_once, cost, joined, lines


def interval(begin: float, end: float, name: str = "agent", number: int = 0) -> Interval:
    return Interval(name=name, number=number, taken_at=begin, given_back_at=end)


def test_most_at_once_counts_what_overlaps_and_not_what_follows() -> None:
    assert at_once([]) == 0
    assert at_once([interval(0, 1), interval(1, 2), interval(2, 3)]) == 1
    assert at_once([interval(0, 5), interval(1, 2), interval(1.5, 3), interval(4, 6)]) == 3


def test_processes_are_added_up_and_powershell_is_counted_per_node() -> None:
    probing = Probing(
        costs=(NodeCost(node="w1", os="windows", agents=2, restarts=1, commands=3, attempts=40),),
        intervals=(
            interval(0, 9),
            interval(0, 2, "powershell-w1"),
            interval(0, 9, "powershell-w2"),
        ),
        limits=(("powershell", 2), ("agent", 60)),
    )
    other = Probing(
        costs=(
            NodeCost(node="w1", os="windows", agents=1, attempts=2, resent=2),
            NodeCost(node="l1", os="linux"),
        ),
        intervals=(interval(1, 3), interval(1, 3, "powershell-w1", 1)),
        limits=(("powershell", 2), ("agent", 60)),
    )
    found = cost([probing, other])
    assert [(node.node, node.agents, node.attempts, node.resent) for node in found.nodes] == [
        ("l1", 0, 0, 0),
        ("w1", 3, 42, 2),
    ]
    assert (found.agents_at_once, found.powershell_at_once, found.processes) == (2, 2, 2)
    told = lines(found)
    assert (
        "execs on windows: 6 (3 agents, 3 commands, 1 restarted) on 1 node for 42 attempts (2 sent again)"
        in told
    )
    assert (
        told[-1] == "peak: 2 agents (limit 60), 2 concurrent PowerShell starts per node (limit 2)"
    )
    assert lines(cost([])) == []


@pytest.mark.parametrize(
    ("costs", "told"),
    [
        pytest.param(
            [NodeCost(node="w1", os="windows", agents=1, attempts=1)],
            ["execs on windows: 1 (1 agent) on 1 node for 1 attempt"],
            id="Windows alone",
        ),
        pytest.param(
            [NodeCost(node="l1", os="linux", agents=2), NodeCost(node="l2", os="linux", agents=1)],
            ["execs on linux: 3 (3 agents) on 2 nodes for 0 attempts"],
            id="Linux alone",
        ),
        pytest.param(
            [NodeCost(node="w1", os="windows", commands=1), NodeCost(node="l1", os="linux")],
            [
                "execs on linux: 0 (0 agents) on 1 node for 0 attempts",
                "execs on windows: 1 (0 agents, 1 command) on 1 node for 0 attempts",
            ],
            id="both",
        ),
    ],
)
def test_each_operating_system_that_was_probed_has_a_line(
    costs: list[NodeCost], told: list[str]
) -> None:
    assert lines(cost([Probing(costs=tuple(costs))]))[:-1] == told


def test_runs_one_after_the_other_add_up_and_keep_their_peaks() -> None:
    first, second = (
        cost([Probing(costs=(node,), intervals=intervals, limits=(("agent", limit),))])
        for node, intervals, limit in (
            (NodeCost(node="w1", os="windows", agents=2), (interval(0, 9), interval(1, 9)), 60),
            (NodeCost(node="w1", os="windows", agents=3), (interval(0, 9),), 30),
        )
    )
    both = joined([first, second])
    assert [(node.node, node.agents) for node in both.nodes] == [("w1", 5)]
    assert (both.agents_at_once, both.agents_limit, both.processes) == (2, 60, 1)
