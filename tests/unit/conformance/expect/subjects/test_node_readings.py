# SPDX-License-Identifier: Apache-2.0
"""Readings are decided node by node, count only if they stay the same, and are never confirmed
for nodes that may not be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from conformance.errors import MissingCapability, ProbeBroken, Unmet
from conformance.expect.context import Context, Sink
from conformance.expect.subjects.readings import Readings
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import OS, Workload
from conformance.model.facts import Announced, Fact
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_ins import Clock

GOOD = "as announced"


def pod(node: str, os: OS = "linux") -> Workload:
    return a_workload(f"on-{node}", os, node=node)


PODS = [pod("l1"), pod("l2"), pod("w1", "windows")]


@dataclass
class Nodes:
    """What each node says: one answer after the other, the last one for good."""

    said: dict[str, list[Mapping[str, Fact[str]] | Exception]]
    clock: Clock = field(default_factory=Clock)
    kept: list[Decision] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def read(self, node: str) -> Mapping[str, Fact[str]]:
        self.asked.append(node)
        answers = self.said.get(node, [routes(node, GOOD)])
        answer = answers[min(self.asked.count(node), len(answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def judge(self) -> None:
        context = Context(claims=("VXLAN-2",), sink=Sink(self.kept))
        requires = Readings(context, load_timings(), self.clock)
        requires.that(
            self.read, GOOD, on=PODS, because="Felix lays routes", do="restart calico-node"
        )

    @property
    def verdicts(self) -> dict[str, ClaimVerdict]:
        return {seen.target: seen.verdict for seen in self.kept}


def routes(node: str, *values: str | None) -> dict[str, Fact[str]]:
    return {
        f"route of node {node} to block 192.168.{number}.0/26 of node w9": Announced(
            value,
            f"routes of node {node}: none",
            f"via 192.168.{number}.2 dev vxlan.calico (node w9 announces it)",
        )
        for number, value in enumerate(values)
    }


def test_every_node_is_a_decision_of_its_own() -> None:
    nodes = Nodes({})
    nodes.judge()
    assert nodes.verdicts == dict.fromkeys(["l1", "l2", "w1"], ClaimVerdict.CONFIRMED)
    assert {seen.halves for seen in nodes.kept} == {("read",)}
    assert nodes.asked == ["l1", "l2", "w1"]


def test_a_node_that_lacks_something_is_named_with_what_was_read_and_the_others_are_well() -> None:
    nodes = Nodes({"l2": [routes("l2", GOOD, "no route", "via 10.0.0.1 dev eth0")]})
    with pytest.raises(Unmet) as unmet:
        nodes.judge()
    assert (
        str(unmet.value)
        == """\
VXLAN-2  route of node l2 to block 192.168.1.0/26 of node w9  expected via 192.168.1.2 dev vxlan.calico \
(node w9 announces it), observed no route (read 121 times, 30.0 s)
  because  Felix lays routes
  read     routes of node l2: none
  also     route of node l2 to block 192.168.2.0/26 of node w9: via 10.0.0.1 dev eth0
  do       restart calico-node"""
    )
    assert nodes.verdicts == {
        "l1": ClaimVerdict.CONFIRMED,
        "l2": ClaimVerdict.UNMET,
        "w1": ClaimVerdict.CONFIRMED,
    }


def test_what_comes_late_is_no_deviation() -> None:
    nodes = Nodes({"l2": [routes("l2", "no route"), routes("l2", "no route"), routes("l2", GOOD)]})
    nodes.judge()
    assert nodes.verdicts["l2"] is ClaimVerdict.CONFIRMED


def test_patience_is_had_once_and_not_for_every_node() -> None:
    nodes = Nodes({name: [routes(name, "no route")] for name in ("l1", "l2", "w1")})
    with pytest.raises(Unmet):
        nodes.judge()
    assert nodes.clock.now < 32
    assert nodes.asked.count("l2") <= 2


def test_a_node_that_nobody_may_look_into_is_not_run_and_stops_no_other() -> None:
    refused = MissingCapability("no HostProcess pod runs on node w1", "allow them")
    nodes = Nodes({"w1": [refused], "l1": [routes("l1", None)]})
    nodes.judge()
    assert nodes.verdicts == {
        "l1": ClaimVerdict.NOT_RUN,
        "l2": ClaimVerdict.CONFIRMED,
        "w1": ClaimVerdict.NOT_RUN,
    }


def test_nothing_is_confirmed_where_no_node_could_be_read() -> None:
    refused = MissingCapability("no HostProcess pod runs", "allow them")
    nodes = Nodes({"l1": [refused], "l2": [{}], "w1": [refused]})
    with pytest.raises(MissingCapability, match="no HostProcess pod runs"):
        nodes.judge()


def test_a_read_that_fails_makes_its_own_node_inconclusive() -> None:
    nodes = Nodes({"l1": [ProbeBroken("node l1: nothing came")]})
    with pytest.raises(ProbeBroken, match="node l1: nothing came"):
        nodes.judge()
    assert nodes.verdicts["l1"] is ClaimVerdict.INCONCLUSIVE
    assert nodes.verdicts["l2"] is ClaimVerdict.CONFIRMED


def test_a_look_that_broke_hides_no_deviation_of_another_node() -> None:
    nodes = Nodes({"l1": [ProbeBroken("node l1: nothing came")], "w1": [routes("w1", "no route")]})
    with pytest.raises(Unmet, match="route of node w1"):
        nodes.judge()
    assert nodes.verdicts == {
        "l1": ClaimVerdict.INCONCLUSIVE,
        "l2": ClaimVerdict.CONFIRMED,
        "w1": ClaimVerdict.UNMET,
    }
