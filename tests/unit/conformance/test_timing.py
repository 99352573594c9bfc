# SPDX-License-Identifier: Apache-2.0
"""Waiting polls often enough, keeps every answer, and believes only agreeing answers, on a clock
that takes no time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

from conformance.timing import Deadline, hold, until

T = TypeVar("T")


class FakeClock:
    """Time that passes only when somebody sleeps or says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def answers(clock: FakeClock, values: Iterable[T], takes: float = 0.0) -> Callable[[], T]:
    """Gives the values one by one, the last one for ever, each after ``takes`` seconds."""
    given = list(values)

    def ask() -> T:
        clock.now += takes
        return given.pop(0) if len(given) > 1 else given[0]

    return ask


def is_open(value: str) -> bool:
    return value == "open"


def test_agreement_in_a_row_ends_the_wait() -> None:
    clock = FakeClock()
    ask = answers(clock, ["shut", "open", "shut", "open", "open", "open"])
    settled = until(ask, is_open, within=30, agree=3, every=1, description="it opens", clock=clock)
    assert settled.converged
    assert settled.observations == ("shut", "open", "shut", "open", "open", "open")


def test_what_agrees_is_asked_again_sooner_than_what_is_waited_for() -> None:
    clock = FakeClock()
    ask = answers(clock, ["shut", "shut", "shut", "shut", "open", "shut", "open", "open", "open"])
    settled = until(
        ask, is_open, within=30, agree=3, every=1, agree_every=0.25, description="it opens", clock=clock
    )  # fmt: skip
    soon_and_then_less_often = [0.0, 0.25, 0.75, 1.75]
    assert [answer.asked_at for answer in settled.answers] == [
        *soon_and_then_less_often,
        2.75,
        3.0,
        4.0,
        4.25,
        4.5,
    ]


def test_one_wrong_answer_starts_the_row_anew() -> None:
    clock = FakeClock()
    ask = answers(clock, ["open", "open", "shut"])
    settled = until(ask, is_open, within=5, agree=3, every=1, description="it opens", clock=clock)
    assert not settled.converged


def test_an_unmet_wait_lasts_its_budget_and_no_longer() -> None:
    clock = FakeClock()
    settled = until(
        answers(clock, ["shut"]), is_open, within=10, every=1, description="it opens", clock=clock
    )
    assert not settled.converged
    assert settled.seconds == 10.0
    assert len(settled.observations) == 11


@pytest.mark.parametrize("within", [0.0, 5.0])
def test_even_without_time_it_asks_twice(within: float) -> None:
    clock = FakeClock()
    settled = until(
        answers(clock, ["shut"], takes=60),
        is_open,
        within=within,
        description="it opens",
        clock=clock,
    )
    assert settled.observations == ("shut", "shut")


def test_a_row_that_began_in_time_is_let_finish_however_slow_the_answers_are() -> None:
    clock = FakeClock()
    ask = answers(clock, ["open"], takes=20)
    settled = until(ask, is_open, within=30, agree=3, every=1, description="it opens", clock=clock)
    assert settled.converged
    assert settled.seconds > 30


def test_a_hopeless_answer_ends_the_wait_at_once() -> None:
    clock = FakeClock()
    ask = answers(clock, ["shut", "broken", "open"])
    settled = until(
        ask,
        is_open,
        within=30,
        every=1,
        description="it opens",
        clock=clock,
        hopeless=lambda one: one == "broken",
    )
    assert (settled.converged, settled.observations) == (False, ("shut", "broken"))


def test_a_broken_question_is_no_answer_and_tells_what_came_before() -> None:
    clock = FakeClock()
    count = iter(range(9))

    def ask() -> str:
        if next(count) == 2:
            raise OSError("the agent died")
        return "shut"

    with pytest.raises(OSError, match="the agent died") as caught:
        until(ask, is_open, within=30, description="it opens", clock=clock)
    assert "while waiting until it opens: 2 answers before" in caught.value.__notes__[0]


@pytest.mark.parametrize("wrong", [{"agree": 0}, {"within": -1.0}])
def test_nonsense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="agree must be at least 1"):
        until(lambda: "open", is_open, **{"within": 1.0, "description": "it opens", **wrong})  # type: ignore[arg-type]


def test_holding_asks_for_its_whole_time() -> None:
    clock = FakeClock()
    held = hold(
        answers(clock, ["open"]),
        is_open,
        seconds=5,
        every=1,
        description="it stays open",
        clock=clock,
    )
    assert held.converged
    assert len(held.observations) == 6


def test_holding_ends_at_once_with_the_first_wrong_answer() -> None:
    clock = FakeClock()
    held = hold(
        answers(clock, ["open", "open", "shut", "open"]),
        is_open,
        seconds=60,
        description="it stays",
        clock=clock,
    )
    assert not held.converged
    assert held.observations == ("open", "open", "shut")


def test_holding_for_no_time_still_asks_twice() -> None:
    clock = FakeClock()
    assert (
        len(
            hold(
                answers(clock, ["open"]), is_open, seconds=0, description="it stays", clock=clock
            ).observations
        )
        == 2
    )


def test_a_deadline_is_shared_by_what_it_is_given_to() -> None:
    clock = FakeClock()
    deadline = Deadline(3, clock)
    clock.sleep(2)
    assert (deadline.elapsed, deadline.remaining, deadline.expired) == (2.0, 1.0, False)
    clock.sleep(2)
    assert (deadline.remaining, deadline.expired) == (0.0, True)
