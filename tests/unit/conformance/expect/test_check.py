# SPDX-License-Identifier: Apache-2.0
"""The check loop decides each case by itself, and raises the worst failure with the others."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.errors import (
    ControlBroken,
    EnvironmentBroken,
    MissingCapability,
    Nonconformance,
    ProbeBroken,
    SuiteError,
    Unmet,
)
from conformance.expect.check import Check, Judged, Ruling, check
from conformance.expect.context import Context, Sink
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from tests.unit.conformance.builders import a_node

NODE = a_node("n1")


@pytest.mark.parametrize(
    ("judged", "verdict", "reason"),
    [
        ("it is open", "CONFIRMED", "it is open"),
        (Nonconformance("closed\nmore"), "VIOLATED", "closed"),
        (Unmet("Always"), "UNMET", "Always"),
        (ProbeBroken("no answer"), "INCONCLUSIVE", "no answer"),
        (Ruling("no loss", ClaimVerdict.NOT_OBSERVED), "NOT_OBSERVED", "no loss"),
        (Ruling("n1: open", error=Nonconformance("x: open")), "VIOLATED", "n1: open"),
        (
            Ruling(verdict=ClaimVerdict.LIFTED, error=EnvironmentBroken("a pod is gone")),
            "INCONCLUSIVE",
            "a pod is gone",
        ),
    ],
)
def test_a_failure_decides_the_verdict_of_its_case_whatever_else_was_ruled(
    judged: Judged, verdict: str, reason: str
) -> None:
    kept: list[Decision] = []
    Check(Context(claims=("A-1",), sink=Sink(kept)), "read").decide(None, NODE, judged)
    assert [(one.target, one.verdict, one.reason) for one in kept] == [("n1", verdict, reason)]


def test_what_was_expected_and_observed_is_kept_with_the_decision() -> None:
    kept: list[Decision] = []
    ruling = Ruling(error=Nonconformance("closed"), symptom=("open", "closed"))
    Check(Context(claims=("A-1",), sink=Sink(kept)), "read").decide(None, NODE, ruling)
    assert [(one.expected, one.observed) for one in kept] == [("open", "closed")]


CONTROL = ControlBroken("the control is closed", control="c")


@pytest.mark.parametrize(
    ("errors", "worst", "notes"),
    [
        ([ProbeBroken("p"), Nonconformance("n")], "n", ["p"]),
        ([EnvironmentBroken("e"), ProbeBroken("p"), Nonconformance("n")], "n", ["e", "p"]),
        ([ProbeBroken("p"), EnvironmentBroken("e")], "e", ["p"]),
        ([MissingCapability("m", "-"), ProbeBroken("p")], "p", ["m; -"]),
        ([CONTROL, Nonconformance("n")], "n", ["the control is closed"]),
        ([Nonconformance("first"), Nonconformance("second")], "first", ["second"]),
        (
            [Nonconformance(str(number)) for number in range(8)],
            "0",
            ["1", "2", "3", "4", "5", "2 more failures"],
        ),
    ],
)
def test_failures_about_the_cluster_come_before_failures_of_probes(
    errors: list[Exception], worst: str, notes: list[str]
) -> None:
    loop = Check(Context(), "open")
    for error in errors:
        loop.decide(None, NODE, error)
    with pytest.raises((Nonconformance, SuiteError)) as caught:
        loop.end()
    assert str(caught.value) == worst
    assert caught.value.__notes__ == [f"  also      {note}" for note in notes]


def test_a_failure_of_several_cases_is_named_once() -> None:
    error = EnvironmentBroken("the node is gone")
    with pytest.raises(EnvironmentBroken) as caught:
        check(Context(), "open", [(None, NODE, error), (None, NODE, error)], lambda one: one)
    assert not hasattr(caught.value, "__notes__")


def test_a_failed_case_stops_no_other_and_an_error_of_our_own_stops_all() -> None:
    kept: list[Decision] = []

    def judge(case: Any) -> Judged:
        if isinstance(case, Exception):
            raise case
        return str(case)

    context = Context(claims=("A-1",), sink=Sink(kept))
    cases = [(None, NODE, case) for case in (ProbeBroken("p"), "open", Unmet("u"))]
    with pytest.raises(Unmet):
        check(context, "open", cases, judge)
    assert [one.verdict for one in kept] == ["INCONCLUSIVE", "CONFIRMED", "UNMET"]
    with pytest.raises(KeyError):
        check(
            context, "open", [(None, NODE, ProbeBroken("p")), (None, NODE, KeyError("bug"))], judge
        )


def test_failures_of_expectations_that_decide_their_cases_themselves_are_kept() -> None:
    def expect(error: Exception | None) -> None:
        if error:
            raise error

    kept: list[Decision] = []
    loop = Check(Context(claims=("A-1",), sink=Sink(kept)), "open")
    loop.keep(lambda: expect(None))
    loop.keep(lambda: expect(ProbeBroken("p")))
    loop.keep(lambda: expect(Nonconformance("n")))
    with pytest.raises(KeyError):
        loop.keep(lambda: expect(KeyError("bug")))
    assert kept == []
    with pytest.raises(Nonconformance, match="n") as caught:
        loop.end()
    assert caught.value.__notes__ == ["  also      p"]


def test_without_a_failure_nothing_is_raised() -> None:
    check(Context(), "open", [(None, NODE, "open")], str)
