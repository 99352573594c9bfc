# SPDX-License-Identifier: Apache-2.0
"""The values that a test may record about its claims, and when."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.catalog import Modality, catalog
from conformance.errors import SuiteError
from conformance.model.claim import ClaimKind, ClaimVerdict
from conformance.model.decision import Decision
from conformance.verdicts.recorder import Recorder
from conformance.verdicts.statement import Statement

V = ClaimVerdict


def a_claim(kind: ClaimKind | None = None, modality: Modality | None = None) -> Any:
    """A claim of the catalog of this kind or modality."""
    return next(
        claim
        for claim in catalog().values()
        if kind in (None, claim.kind) and modality in (None, claim.modality)
    )


LIMITATION = a_claim(ClaimKind.LIMITATION)
ISSUE = a_claim(ClaimKind.KNOWN_ISSUE)
PROMISE = a_claim(ClaimKind.CAPABILITY, Modality.ALWAYS)
CHANCE = a_claim(modality=Modality.CAN_HAPPEN)


def recorder(*claims: Any, calling: bool = True) -> tuple[Recorder, Statement]:
    statement = Statement(calling=calling)
    return Recorder(claims, statement), statement


def a_decision(verdict: ClaimVerdict, claim: str = "") -> Decision:
    return Decision(
        claim=claim,
        source="a",
        target="b",
        builds=(),
        about=(),
        verdict=verdict,
        reason="why",
        halves=("open",),
    )


def test_figures_and_systems_are_kept() -> None:
    record, statement = recorder(PROMISE)
    record(first=0.5)
    record(first=0.7, words="x")
    record.touched(["linux"])
    record.touched(["windows", "linux"])
    assert statement.measured == {"first": 0.7, "words": "x"}
    assert statement.touched == {"linux", "windows"}


@pytest.mark.parametrize("calling", [True, False])
def test_nothing_is_confirmed_outside_of_a_test_s_body(calling: bool) -> None:
    record, statement = recorder(PROMISE, calling=calling)
    record.decided(a_decision(V.CONFIRMED), a_decision(V.VIOLATED))
    kept = [each.verdict for each in statement.decisions]
    assert kept == ([V.CONFIRMED, V.VIOLATED] if calling else [V.VIOLATED])


@pytest.mark.parametrize("claim", [LIMITATION, ISSUE])
def test_limitations_and_known_issues_can_be_lifted(claim: Any) -> None:
    record, statement = recorder(claim)
    record.decided(a_decision(V.LIFTED))
    record.lifted("it works")
    assert [found.verdict for found in statement.special.values()] == [V.LIFTED]


def test_what_is_promised_cannot_be_lifted_whichever_claim_of_the_test_it_is() -> None:
    for claims in ((PROMISE,), (LIMITATION, PROMISE), (PROMISE, LIMITATION)):
        record, statement = recorder(*claims)
        words = f"{PROMISE.id} is a capability: only limitations"
        with pytest.raises(SuiteError, match=words):
            record.lifted("x")
        with pytest.raises(SuiteError, match=words):
            record.decided(a_decision(V.LIFTED))
        assert not statement.special
        assert not statement.decisions


def test_what_holds_always_cannot_be_not_observed() -> None:
    record, statement = recorder(CHANCE, PROMISE)
    record.not_observed("it did not happen", CHANCE.id)
    assert statement.special[CHANCE.id].verdict is V.NOT_OBSERVED
    for claim in ("", PROMISE.id):
        with pytest.raises(SuiteError, match=f"{PROMISE.id} must always hold, so NOT_OBSERVED"):
            record.not_observed("it did not happen", claim)
        with pytest.raises(SuiteError, match="must always hold"):
            record.decided(a_decision(V.NOT_OBSERVED, claim))


def test_a_claim_that_the_test_does_not_verify_is_refused() -> None:
    record, _ = recorder(PROMISE)
    with pytest.raises(SuiteError, match=f"record: this test does not verify {LIMITATION.id}"):
        record.lifted("it works", LIMITATION.id)
