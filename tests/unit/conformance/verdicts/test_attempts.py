# SPDX-License-Identifier: Apache-2.0
"""The worst of several attempts at one test counts, and a test whose attempts disagree is marked
as flaky."""

from __future__ import annotations

import pytest

from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.model.decision import UNANSWERED, Decision
from conformance.verdicts.attempts import merged, of_planned, silenced, unanswered
from conformance.verdicts.claims import TestOutcome
from conformance.verdicts.prospect import ClaimPart

V = ClaimVerdict
PARTS = (ClaimPart(claim="DEMO-5", part="linux"), ClaimPart(claim="DEMO-7"))
CRASHED, ENDED = "worker gw1 crashed", "the run ended before"


def outcome(
    verdict: V, reason: str = "", *, results: tuple[ClaimResult, ...] = (), seconds: float = 1.0
) -> TestOutcome:
    return TestOutcome(
        test="t::a",
        verdict=verdict,
        reason=reason or f"{verdict} there",
        results=results,
        seconds=seconds,
    )


def result(verdict: V, reason: str = "") -> ClaimResult:
    return ClaimResult(
        claim="DEMO-5", verdict=verdict, test="t::a", reason=reason or f"{verdict} of the claim"
    )


@pytest.mark.parametrize(
    ("attempts", "verdict", "reason", "flaky"),
    [
        pytest.param((V.CONFIRMED,), V.CONFIRMED, "CONFIRMED there", False, id="one attempt"),
        pytest.param(
            (V.VIOLATED, V.VIOLATED), V.VIOLATED, "VIOLATED there", False, id="attempts that agree"
        ),
        pytest.param(
            (V.VIOLATED, V.CONFIRMED),
            V.VIOLATED,
            "FLAKY (VIOLATED, CONFIRMED): VIOLATED there",
            True,
            id="a later success hides no failure",
        ),
        pytest.param(
            (V.INCONCLUSIVE, V.CONFIRMED),
            V.INCONCLUSIVE,
            "FLAKY (INCONCLUSIVE, CONFIRMED): INCONCLUSIVE there",
            True,
            id="a later success hides no broken probe",
        ),
        pytest.param(
            (V.CONFIRMED, V.VIOLATED, V.INCONCLUSIVE),
            V.VIOLATED,
            "FLAKY (CONFIRMED, VIOLATED, INCONCLUSIVE): VIOLATED there",
            True,
            id="the worst, wherever it stands",
        ),
    ],
)
def test_the_worst_attempt_counts(
    attempts: tuple[V, ...], verdict: V, reason: str, flaky: bool
) -> None:
    found = merged([outcome(attempt) for attempt in attempts])
    assert (found.verdict, found.reason, found.flaky) == (verdict, reason, flaky)


def test_attempts_are_kept_oldest_first_and_their_seconds_added() -> None:
    found = merged([outcome(V.VIOLATED, seconds=2.0), outcome(V.CONFIRMED, seconds=3.0)])
    assert (found.attempts, found.seconds) == (("VIOLATED", "CONFIRMED"), 5.0)


def test_of_attempts_that_agree_the_first_reason_is_reported() -> None:
    assert merged([outcome(V.VIOLATED, "first"), outcome(V.VIOLATED, "second")]).reason == "first"


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        pytest.param(
            V.CONFIRMED,
            V.CONFIRMED,
            "CONFIRMED of the claim",
            id="results that agree keep their reason",
        ),
        pytest.param(
            V.VIOLATED,
            V.CONFIRMED,
            "FLAKY (VIOLATED, CONFIRMED): VIOLATED of the claim",
            id="results that differ are marked",
        ),
    ],
)
def test_each_result_is_the_worst_of_its_attempts(first: V, second: V, reason: str) -> None:
    attempts = [
        outcome(V.VIOLATED, results=(result(first),)),
        outcome(V.CONFIRMED, results=(result(second),)),
    ]
    (found,) = merged(attempts).results
    assert (found.verdict, found.reason) == (first, reason)


def test_a_result_that_did_not_change_is_not_marked_beside_one_that_did() -> None:
    attempts = [
        outcome(V.VIOLATED, results=(result(V.VIOLATED), result(V.CONFIRMED, "steady"))),
        outcome(V.CONFIRMED, results=(result(V.CONFIRMED), result(V.CONFIRMED, "steady"))),
    ]
    assert [each.reason for each in merged(attempts).results][1] == "steady"


def test_a_test_whose_worker_crashed_is_inconclusive_in_all_its_parts() -> None:
    found = silenced("t::a", PARTS, "lab", crash=CRASHED, ended=ENDED)
    assert (found.verdict, found.reason, found.remedy, found.ran) == (
        V.INCONCLUSIVE,
        CRASHED,
        "",
        True,
    )
    assert [(each.claim, each.verdict) for each in found.results] == [
        ("DEMO-5", V.INCONCLUSIVE),
        ("DEMO-7", V.INCONCLUSIVE),
    ]


def test_a_planned_test_that_never_began_was_not_run() -> None:
    found = silenced("t::a", PARTS, "lab", crash="", ended=ENDED)
    assert (found.verdict, found.reason, found.remedy, found.ran) == (
        V.NOT_RUN,
        ENDED,
        "run it again",
        False,
    )


NEVER_BEGAN = silenced("t::a", (), "lab", crash="", ended=ENDED)
DIED = silenced("t::a", (), "lab", crash=CRASHED, ended=ENDED)


@pytest.mark.parametrize(
    ("heard", "silent", "before", "verdict"),
    [
        pytest.param(V.CONFIRMED, NEVER_BEGAN, None, V.CONFIRMED, id="a report is what counts"),
        pytest.param(
            V.CONFIRMED, DIED, None, V.INCONCLUSIVE, id="a crash before the report counts too"
        ),
        pytest.param(
            V.CONFIRMED,
            DIED,
            V.VIOLATED,
            V.VIOLATED,
            id="what was violated before the crash stays so",
        ),
        pytest.param(
            None, DIED, V.VIOLATED, V.VIOLATED, id="violated, then crashed, never tried again"
        ),
        pytest.param(
            None, DIED, V.CONFIRMED, V.INCONCLUSIVE, id="a success before a crash decides nothing"
        ),
        pytest.param(None, NEVER_BEGAN, None, V.NOT_RUN, id="no report"),
    ],
)
def test_what_counts_of_a_planned_test(
    heard: V | None, silent: TestOutcome, before: V | None, verdict: V
) -> None:
    found = of_planned(
        outcome(heard) if heard else None, silent, outcome(before) if before else None
    )
    assert found.verdict is verdict


def test_confirmed_paths_that_lost_attempts_before_are_noted() -> None:
    def path(reason: str, verdict: V = V.CONFIRMED) -> ClaimResult:
        one = Decision(
            source="linux-1", target="windows-1", builds=(), about=(), verdict=verdict,
            reason=reason, halves=("open",),
        )  # fmt: skip
        return ClaimResult(
            claim="CONN-3", verdict=verdict, test="t::a", reason=reason, decisions=(one,)
        )

    lost = f"it is open; 2 attempts before {UNANSWERED}"
    plain = outcome(V.CONFIRMED, results=(path("it is open"), path(lost, V.VIOLATED)))
    assert unanswered([plain]) == ""
    note = unanswered([plain, outcome(V.CONFIRMED, results=(path(lost),))])
    assert note.startswith(
        "1 CONFIRMED path lost attempts after the first connection, the first CONN-3, linux-1"
    )
