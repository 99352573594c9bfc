# SPDX-License-Identifier: Apache-2.0
"""The outcomes of the tests in a stored report are those of its run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conformance.model.codec import to_plain
from conformance.model.explanation import Explanation
from conformance.model.verdict import ClaimVerdict
from conformance.qualify.outcomes import tests as outcomes
from conformance.qualify.stored import Report
from conformance.verdicts.claims import TestOutcome
from tests.unit.conformance.qualify.reports import NEW, decided, report

WHY = Explanation(
    claims=("DEMO-7",),
    path="client -> server:80/tcp",
    expected="TIMED_OUT",
    observed="CONNECTED",
    tries=3,
    lines={"because": "the policy allows 8080 alone"},
)


def stored(**plain: Any) -> Report:
    """Return a report of one test."""
    made = report([decided("DEMO-7", {NEW: "VIOLATED"})])
    test = {"test": "suites/test_DEMO-7.py::test[]", "verdict": "VIOLATED", **plain}
    return replace(made, plain={**made.plain, "tests": [test]})


def outcome(**plain: Any) -> TestOutcome:
    (found,) = outcomes(stored(**plain))
    return found


def test_an_explanation_is_read_whole_and_its_first_line_is_made_anew() -> None:
    plain = to_plain(WHY) | {"headline": "an earlier release's words"}
    found = outcome(explanation=plain).explanation
    assert found == WHY
    assert found.headline == WHY.headline


def test_a_test_that_explained_nothing_has_no_explanation() -> None:
    assert outcome(explanation=None).explanation is None
    assert outcome().explanation is None


def test_a_test_has_its_own_fields_and_the_results_of_its_claims() -> None:
    found = outcome(seconds=2.5, remedy=None)
    assert (found.verdict, found.seconds, found.remedy) == (ClaimVerdict.VIOLATED, 2.5, "")
    assert [result.claim for result in found.results] == ["DEMO-7"]
