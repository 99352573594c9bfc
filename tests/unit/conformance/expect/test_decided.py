# SPDX-License-Identifier: Apache-2.0
"""Expectations record their decisions path by path: only a wrong path is VIOLATED, and a control
decides nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.errors import ControlBroken, Nonconformance
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.denial import blocked
from tests.unit.conformance.expect.stand_ins import (
    BYSTANDER,
    Answer,
    ScriptedProber,
    observation,
    target,
)

UP, DROPPED = Verdict.CONNECTED, Verdict.TIMED_OUT


def scripted(**answers: list[Answer]) -> tuple[Expect, list[Decision]]:
    kept: list[Decision] = []
    prober = ScriptedProber(answers)
    return an_expect(prober, "POL-1", kept=kept), kept


def test_a_denial_is_decided_and_its_controls_decide_nothing() -> None:
    friend, stranger = a_workload("friend"), a_workload("stranger", "windows")
    expect, kept = scripted(friend=[UP], stranger=[UP])
    expect.control([friend, stranger], target(), because="open before")
    assert kept == []
    assert isinstance(expect.prober, ScriptedProber)
    expect.prober.answers["stranger"] = [DROPPED]
    blocked(
        expect, stranger, target(), beside=[friend, (stranger, BYSTANDER)], because="nobody else"
    )
    assert [(seen.source, seen.verdict, seen.halves, seen.reason) for seen in kept] == [
        ("windows-1", ClaimVerdict.CONFIRMED, ("closed",), "nobody else")
    ]


def test_of_the_ways_of_one_failure_only_the_wrong_ones_are_violated() -> None:
    expect, kept = scripted(good=[UP], bad=[DROPPED])
    with pytest.raises(Nonconformance):
        expect.reachable(
            [a_workload("good"), a_workload("bad", "windows")], target(), because="no policy"
        )
    assert [(seen.source, seen.verdict) for seen in kept] == [
        ("linux-1", ClaimVerdict.CONFIRMED),
        ("windows-1", ClaimVerdict.VIOLATED),
    ]
    assert "expected CONNECTED, observed TIMED_OUT" in kept[1].reason


def test_a_failure_names_the_ways_that_are_wrong_and_no_other() -> None:
    expect, _ = scripted(good=[UP], bad=[DROPPED], worse=[DROPPED])
    with pytest.raises(Nonconformance) as raised:
        expect.reachable(
            [a_workload("good"), a_workload("bad"), a_workload("worse", "windows")],
            target(),
            because="open",
        )
    assert [one.source.pod for one in raised.value.paths] == ["bad", "worse"]


def test_a_broken_control_names_its_way() -> None:
    expect, _ = scripted(good=[UP], bad=[DROPPED])
    with pytest.raises(ControlBroken) as raised:
        expect.control([a_workload("good"), a_workload("bad")], target(), because="open before")
    assert [one.source.pod for one in raised.value.paths] == ["bad"]


def test_a_source_whose_questions_stay_unanswered_takes_no_other_with_it() -> None:
    def silent(attempt: Attempt, _: int) -> Observation:
        expect.clock.sleep(
            45
        )  # s; of rounds that long two fit into the time there is, and three have to agree
        return observation(attempt, Verdict.DNS_FAILED)

    def resolved(attempt: Attempt, _: int) -> Observation:
        return replace(observation(attempt, Verdict.RESOLVED), answers=("10.96.0.7",))

    expect, kept = scripted(good=[resolved], bad=[silent])
    with pytest.raises(Nonconformance, match="ns/bad"):
        expect.resolves(
            [a_workload("good"), a_workload("bad", "windows")],
            "web",
            ["10.96.0.7"],
            because="DNS is there",
        )
    assert {seen.source: seen.verdict for seen in kept} == {
        "linux-1": ClaimVerdict.CONFIRMED,
        "windows-1": ClaimVerdict.VIOLATED,
    }
