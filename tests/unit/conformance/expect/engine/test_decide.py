# SPDX-License-Identifier: Apache-2.0
"""Conditions under which a series of time-outs is a denial, attempt by attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from conformance.expect.engine.decide import Held, NotYet, Standing, Wrong, decide
from conformance.expect.engine.path import Path, Rule, Why, link
from conformance.model.attempt import Attempt, Kind
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_ins import target

UP, DROPPED = Verdict.CONNECTED, Verdict.TIMED_OUT
RULE = Rule(agree=3, agree_span=2.0, hold=3.0, near=1.0, within=10.0)
SOURCE, SERVER, OTHER = a_workload("a"), target(), target("192.168.0.8")
Answer = Verdict | None
"""What an attempt showed; None: it is unanswered."""


def path(host: str, *, want: bool, source: str = "a") -> Path:
    goal = SERVER if host == "server" else OTHER
    attempt = Attempt(source=a_workload(source), target=goal, kind=Kind.TCP, give_up_after=5.0)
    return Path(attempt, want, RULE)


def tell(
    path: Path,
    answers: Sequence[Answer],
    *,
    first: float = 0.0,
    clock: str = "a1",
    error: float = 0.0,
) -> None:
    """One attempt a second."""
    for number, verdict in enumerate(answers):
        began = first + number
        attempt = path.ask(began)
        if verdict is not None:
            seen = Observation(
                attempt=path.attempt, verdict=verdict, at=0.0, seconds=0.1, began=began, clock=clock
            )
            path.answer(attempt, seen, at=began, error=error, came=began)


def standing(
    answers: Sequence[Answer], control: Sequence[Answer] = (UP,) * 30, *, first: float = 0.0, clock: str = "a1",
    error: float = 0.0, source: str = "a",
) -> Standing:  # fmt: skip
    shut, beside = (
        path("server", want=False),
        path("server" if source != "a" else "other", want=True, source=source),
    )
    link([shut, beside])
    tell(beside, control, clock=clock, error=error)
    tell(shut, answers, first=first)
    return decide(shut)


def test_a_row_is_held_once_it_spans_agreement_and_hold() -> None:
    assert isinstance(standing([DROPPED] * 5), NotYet)
    assert isinstance(standing([DROPPED] * 6), Held)


def test_nothing_is_held_while_an_earlier_attempt_is_unanswered() -> None:
    assert isinstance(standing([DROPPED, None, *[DROPPED] * 20]), NotYet)


def test_a_row_that_begins_too_late_is_none() -> None:
    assert isinstance(standing([DROPPED] * 6, first=10.0), Held)
    assert isinstance(standing([DROPPED] * 6, first=11.0), NotYet)


def test_a_packet_that_arrives_after_agreement_is_a_leak_at_once() -> None:
    assert standing([*[DROPPED] * 3, UP]) == Wrong(Why.LEAK)
    assert standing([*[DROPPED] * 3, None, None, UP]) == Wrong(Why.LEAK)


def test_a_packet_that_arrives_before_agreement_ends_the_row_and_another_may_begin() -> None:
    assert isinstance(standing([DROPPED, DROPPED, UP, *[DROPPED] * 5]), NotYet)
    assert isinstance(standing([DROPPED, DROPPED, UP, *[DROPPED] * 6]), Held)


@pytest.mark.parametrize("other", sorted(set(Verdict) - {UP, DROPPED}))
def test_no_other_verdict_belongs_to_a_row(other: Verdict) -> None:
    assert not isinstance(standing([DROPPED, other, *[DROPPED] * 5]), Held)


def test_a_control_that_was_lost_for_longer_than_it_may_be_away_ends_the_row() -> None:
    assert isinstance(standing([DROPPED] * 6, [UP, UP, DROPPED, UP, UP, UP]), Held)
    assert isinstance(standing([DROPPED] * 6, [UP, DROPPED, DROPPED, DROPPED, UP, UP]), NotYet)


def test_a_control_answered_later_makes_its_time_outs_count_after_all() -> None:
    shut, beside = path("server", want=False), path("other", want=True)
    link([shut, beside])
    tell(shut, [DROPPED] * 6)
    assert isinstance(decide(shut), NotYet)
    tell(beside, [UP] * 6)
    assert isinstance(decide(shut), Held)


def test_moments_of_two_agents_are_compared_by_the_suite_s_clock_and_its_error() -> None:
    assert isinstance(standing([DROPPED] * 6, clock="b1", source="b"), Held)
    assert isinstance(standing([DROPPED] * 6, clock="b1", source="b", error=4.9), Held)
    assert isinstance(standing([DROPPED] * 6, clock="b1", source="b", error=5.1), NotYet)


def test_a_control_of_another_source_counts_for_a_give_up_time_and_no_longer() -> None:
    assert isinstance(standing([DROPPED] * 6, [UP, DROPPED], clock="b1", source="b"), Held)
    assert isinstance(
        standing([DROPPED] * 6, [UP, DROPPED], clock="b1", source="b", first=1.0), NotYet
    )


def test_attempts_of_an_agent_and_of_the_one_started_after_it_make_no_row() -> None:
    shut, beside = path("server", want=False), path("other", want=True)
    link([shut, beside])
    for clock, first in (("a1", 0.0), ("a2", 3.0)):
        tell(beside, [UP] * 3, first=first, clock=clock)
        tell(shut, [DROPPED] * 3, first=first, clock=clock)
    assert isinstance(decide(shut), NotYet)


def test_a_route_without_a_control_is_never_held() -> None:
    alone = path("server", want=False)
    tell(alone, [DROPPED] * 20)
    assert isinstance(decide(alone), NotYet)


def test_where_there_are_controls_of_both_kinds_both_are_needed() -> None:
    shut, of_source = path("server", want=False), path("other", want=True)
    to_target = path("server", want=True, source="b")
    link([shut, of_source, to_target])
    tell(of_source, [UP] * 6)
    tell(to_target, [DROPPED] * 6, clock="b1")
    tell(shut, [DROPPED] * 6)
    assert isinstance(decide(shut), NotYet)


def test_an_open_route_is_held_by_its_newest_attempts() -> None:
    for answers, wanted in (
        ([UP] * 3, Held),
        ([DROPPED, UP, UP, UP], Held),
        ([UP, UP, UP, DROPPED], NotYet),
    ):
        one = path("server", want=True)
        tell(one, answers)
        assert isinstance(decide(one), wanted)


@pytest.mark.parametrize(
    ("answers", "held"),
    [
        ([UP, UP, UP], True),
        ([None, UP, UP, UP], True),
        ([UP, UP, UP, None], True),
        ([UP, UP, None, UP], False),
        ([UP, UP, UP, DROPPED], False),
        ([UP, UP, UP, None, DROPPED], False),
        ([UP, UP, UP, None, UP], True),
        ([None, None, DROPPED, UP, UP, UP], True),
    ],
)
def test_an_open_route_needs_the_newest_answers_in_a_row(answers: list[Answer], held: bool) -> None:
    one = path("server", want=True)
    tell(one, answers)
    assert isinstance(decide(one), Held) is held


@pytest.mark.parametrize(
    ("answers", "control", "expected"),
    [
        ([DROPPED] * 5, [UP] * 30, ("NotYet", False)),
        ([DROPPED] * 6, [UP] * 30, ("NotYet", True)),
        ([DROPPED] * 9, [UP] * 30, ("NotYet", True)),
        ([DROPPED] * 10, [UP] * 30, ("Held", True)),
        ([DROPPED] * 10, [UP] * 6, ("Held", False)),
        ([*[DROPPED] * 6, UP], [UP] * 30, ("Wrong", Why.LEAK)),
        ([*[DROPPED] * 8, Verdict.RESET, DROPPED], [UP] * 30, ("Wrong", Why.LEAK)),
        ([*[DROPPED] * 9, Verdict.UNREACHABLE], [UP] * 30, ("Held", False)),
        ([*[DROPPED] * 3, Verdict.UNREACHABLE, DROPPED], [UP] * 30, ("NotYet", False)),
        ([*[DROPPED] * 3, None, UP], [UP] * 30, ("Wrong", Why.LEAK)),
        ([DROPPED, None, UP], [UP] * 30, ("NotYet", False)),
    ],
)
def test_a_denial_that_is_watched_holds_once_the_watch_is_over(
    answers: Sequence[Answer], control: Sequence[Answer], expected: tuple[str, object]
) -> None:
    shut = path("server", want=False)
    shut.rule = replace(shut.rule, watch=4.0)
    beside = path("other", want=True)
    link([shut, beside])
    tell(beside, control)
    tell(shut, answers)
    found = decide(shut)
    shown = getattr(found, "why", getattr(found, "watched", getattr(found, "watching", None)))
    assert (type(found).__name__, shown) == expected
