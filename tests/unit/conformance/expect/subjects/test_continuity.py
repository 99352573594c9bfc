# SPDX-License-Identifier: Apache-2.0
"""Conditions that hold during a whole interval: a path that opens for a moment is reported with
its time, and silence is no denial."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from conformance.errors import ControlBroken, Nonconformance, ProbeBroken, UsageProblem
from conformance.expect.case import Case
from conformance.expect.subjects.continuity import Continuity
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Target
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_ins import (
    BYSTANDER,
    Answer,
    ScriptedProber,
    observation,
    target,
)

STRANGER, SERVER = a_workload("stranger", "windows"), a_workload("server")
TARGET = replace(target(), backends=(SERVER,))
CLOSED = Case(STRANGER, TARGET, open=False, because="it stays")
UP, DROPPED = Verdict.CONNECTED, Verdict.TIMED_OUT


def throughout(*answers: Answer, decided: list[Decision] | None = None) -> Continuity:
    keep: list[Decision] = [] if decided is None else decided
    prober = ScriptedProber({"stranger": list(answers)})
    return Continuity(an_expect(prober, "XPOL-18", kept=keep))


def asked(
    one: Continuity, seconds: float = 10.0, *, alive: bool = True, friend: Target = BYSTANDER
) -> None:
    """Ask until so many seconds are over, by the clock of the script."""
    clock = one.expect.prober.clock  # type: ignore[attr-defined]

    def work() -> None:
        while clock.now < seconds:
            pass

    beside = [Case(STRANGER, friend, open=True, because="no policy selects it")] if alive else []
    one.closed_while(work, CLOSED, *beside, because="it stays")


def test_a_path_that_stays_closed_is_confirmed_with_how_often_it_was_asked() -> None:
    decided: list[Decision] = []
    asked(throughout(DROPPED, decided=decided))
    assert [one.verdict for one in decided] == [ClaimVerdict.CONFIRMED]
    assert "it stays; probed " in decided[0].reason


def test_a_path_that_opens_and_closes_again_is_told_with_its_seconds() -> None:
    with pytest.raises(Nonconformance) as told:
        asked(throughout(DROPPED, DROPPED, UP, UP, UP, DROPPED))
    first, *rest = str(told.value).splitlines()
    assert "expected TIMED_OUT all the while, observed TIMED_OUT" in first
    assert "CONNECTED" in first
    assert any("after the start" in line for line in rest)
    assert any("read Felix' log on node linux-1 and windows-1 for" in line for line in rest)


def test_a_single_connection_shows_neither_that_it_opened_nor_that_it_stayed_closed() -> None:
    decided: list[Decision] = []
    with pytest.raises(ControlBroken, match="a single connection got through"):
        asked(throughout(DROPPED, DROPPED, UP, DROPPED, decided=decided))
    assert [one.verdict for one in decided] == [ClaimVerdict.INCONCLUSIVE]


@pytest.mark.parametrize("other", [Verdict.UNREACHABLE, Verdict.PROHIBITED])
def test_what_is_no_denial_is_none(other: Verdict) -> None:
    with pytest.raises(ControlBroken, match=r"observed .*: this is not a denial"):
        asked(throughout(DROPPED, DROPPED, other))


def test_a_source_that_gets_nowhere_proves_nothing() -> None:
    with pytest.raises(ControlBroken, match="reached no server"):
        asked(throughout(DROPPED), alive=False)


def test_a_source_that_got_through_at_first_alone_proves_nothing_of_the_rest() -> None:
    friend, heard = replace(TARGET, host="10.0.0.99"), [UP, UP]

    def answer(attempt: Attempt, number: int) -> Observation:
        return observation(attempt, heard.pop() if attempt.target == friend and heard else DROPPED)

    with pytest.raises(ControlBroken, match="reached no server at the end"):
        asked(throughout(answer), friend=friend)


def test_a_source_that_was_late_at_the_end_is_waited_for() -> None:
    friend, late, decided = replace(TARGET, host="10.0.0.99"), [DROPPED] * 21, list[Decision]()

    def answer(attempt: Attempt, number: int) -> Observation:
        on_time = attempt.target == friend and not late
        return observation(
            attempt, UP if on_time else late.pop() if attempt.target == friend else DROPPED
        )

    asked(throughout(answer, decided=decided), friend=friend)
    assert [one.verdict for one in decided] == [ClaimVerdict.CONFIRMED]


def test_a_source_whose_last_silence_is_heard_after_the_end_is_asked_again() -> None:
    friend, over, decided = replace(TARGET, host="10.0.0.99"), threading.Event(), list[Decision]()
    verdicts = [UP, UP]

    def answer(attempt: Attempt, number: int) -> Observation:
        if attempt.target != friend:
            return observation(attempt, DROPPED)
        if not verdicts and not over.is_set():
            over.set()
            time.sleep(0.1)  # until the work has ended, while this one is under way
            return observation(attempt, DROPPED)
        return observation(attempt, verdicts.pop() if verdicts else UP)

    one = throughout(answer, decided=decided)
    beside = Case(STRANGER, friend, open=True, because="no policy selects it")
    one.closed_while(lambda: over.wait(10.0), CLOSED, beside, because="it stays")
    assert [one.verdict for one in decided] == [ClaimVerdict.CONFIRMED]


def test_a_source_that_gets_through_by_datagrams_alone_proves_nothing_of_its_connections() -> None:
    friend = replace(TARGET, host="10.0.0.99", protocol="udp")

    def answer(attempt: Attempt, number: int) -> Observation:
        return observation(attempt, UP if attempt.target == friend else DROPPED)

    with pytest.raises(ControlBroken, match="reached no server at the end"):
        asked(throughout(answer), friend=friend)


def test_what_breaks_the_asking_itself_is_raised_and_no_silence() -> None:
    def answer(attempt: Attempt, number: int) -> Observation:
        raise OSError("no more threads")

    with pytest.raises(OSError, match="no more threads"):
        throughout(answer).closed_while(lambda: None, CLOSED, because="it stays")


def test_a_broken_probe_is_no_denial() -> None:
    with pytest.raises(ProbeBroken):
        asked(throughout(DROPPED, ProbeBroken("no answer")))


def test_what_got_through_is_told_although_the_probe_broke_later() -> None:
    with pytest.raises(Nonconformance):
        asked(throughout(DROPPED, UP, UP, UP, ProbeBroken("no answer")))


def test_without_a_closed_case_there_is_nothing_to_hold() -> None:
    with pytest.raises(UsageProblem, match="name a case that stays closed"):
        throughout(DROPPED).closed_while(list, replace(CLOSED, open=True), because="it stays")


def test_what_the_work_raises_is_raised() -> None:
    def work() -> None:
        raise ControlBroken("Felix was back too soon", control="Felix is down")

    with pytest.raises(ControlBroken, match="too soon"):
        throughout(DROPPED).closed_while(work, CLOSED, because="it stays")
