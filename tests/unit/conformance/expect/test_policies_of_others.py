# SPDX-License-Identifier: Apache-2.0
"""A policy of another owner that explains a closed path ends the wait, and nothing else does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, Nonconformance
from conformance.expect.context import World
from conformance.expect.owners import NoForeignChanges
from conformance.model.decision import Decision
from conformance.model.observation import Verdict
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_ins import ScriptedProber, observation

CLIENT = a_workload("client")
SERVER = a_workload("server", "windows", address="192.168.0.9")
BY = "GlobalNetworkPolicy theirs denies ingress of ns/server"


@dataclass
class Owner(NoForeignChanges):
    """Another owner, whose policy closes every path, by a defect or as promised."""

    exempt: str = "exempt the run"
    closes: bool = True
    by_defect: bool = False
    observed: list[tuple[Any, Any]] = field(default_factory=list)

    def excuse(self, *way: object, **how: object) -> str:
        return BY if self.closes and way[-1] == "closed" and not self.by_defect else ""

    def explains(self, *way: object, **how: object) -> bool:
        return self.closes

    def defect(self, *way: object) -> str:
        return BY if self.by_defect else ""

    def observe(self, *test: Any) -> None:
        claims, open_paths = test
        self.observed.append((claims, [path[0].pod for path in open_paths]))


def waited(answers: list[Any], others: Owner, *, control: bool = False) -> tuple[float, Exception]:
    """How long a path was waited for, and what it ended with."""
    prober = ScriptedProber({"client": answers})
    kept: list[Decision] = []
    expect = an_expect(prober, "CONN-3", kept=kept, world=World(others=others))
    ask = expect.control if control else expect.reachable
    with pytest.raises(Exception) as raised:  # noqa: PT011
        ask(CLIENT, SERVER.tcp(8080), because="x")
    return prober.clock.now, raised.value


def elsewhere(attempt: Any, number: int) -> Any:
    return observation(attempt, Verdict.CONNECTED, served_by="ns/another")


WHOLE, _ = waited([Verdict.TIMED_OUT], Owner(closes=False))


def test_a_closed_path_that_a_policy_explains_is_waited_for_only_briefly() -> None:
    seconds, ended = waited([Verdict.TIMED_OUT], Owner())
    assert isinstance(ended, EnvironmentBroken)
    assert BY in str(ended)
    assert seconds < WHOLE / 2


def test_a_closed_path_that_none_explains_is_waited_for_until_the_end() -> None:
    seconds, ended = waited([Verdict.TIMED_OUT], Owner(closes=False))
    assert isinstance(ended, Nonconformance)
    assert seconds == pytest.approx(WHOLE)


@pytest.mark.parametrize("answer", [Verdict.RESET, Verdict.NO_ANSWER, Verdict.UNREACHABLE])
def test_what_a_policy_does_not_give_gets_its_whole_wait(answer: Verdict) -> None:
    alone, _ = waited([answer], Owner(closes=False))
    seconds, ended = waited([answer], Owner())
    assert isinstance(ended, Nonconformance)
    assert seconds == pytest.approx(alone)


def test_a_path_that_was_open_meanwhile_gets_its_whole_wait() -> None:
    alone, _ = waited([Verdict.CONNECTED, Verdict.TIMED_OUT], Owner(closes=False))
    seconds, _ = waited([Verdict.CONNECTED, Verdict.TIMED_OUT], Owner())
    assert seconds == pytest.approx(alone)


def test_a_control_that_is_closed_by_the_defect_in_question_shows_the_defect() -> None:
    _, ended = waited([Verdict.TIMED_OUT], Owner(by_defect=True), control=True)
    assert isinstance(ended, Nonconformance)
    _, excused = waited([Verdict.TIMED_OUT], Owner(), control=True)
    assert isinstance(excused, EnvironmentBroken)


def test_paths_that_are_open_are_noted_with_the_claims() -> None:
    others = Owner(closes=False)
    prober = ScriptedProber({"client": [Verdict.CONNECTED], "other": [Verdict.TIMED_OUT]})
    expect = an_expect(prober, "CONN-3", kept=[], world=World(others=others))
    with pytest.raises(Nonconformance):
        expect.reachable([CLIENT, a_workload("other")], SERVER.tcp(8080), because="x")
    assert others.observed == [(("CONN-3",), ["client"]), ((), [])], "and taken back"
