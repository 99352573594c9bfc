# SPDX-License-Identifier: Apache-2.0
"""A dry run lists the tests that would not run, and every missing right."""

from __future__ import annotations

from typing import Any

from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.schedule.missing_rights import lines_about_tests_not_run
from conformance.verdicts.claims import TestOutcome

RIGHTS = (
    "patch nodes (needed to cordon a node and uncordon it)",
    "create pods/eviction (needed to drain a node)",
)
LACKING = {"disruption": RIGHTS}


def ended(
    name: str, claim: str, reason: str, remedy: str = "", verdict: Any = ClaimVerdict.NOT_RUN
) -> TestOutcome:
    result = ClaimResult(claim=claim, verdict=verdict, test=name, reason=reason, remedy=remedy)
    return TestOutcome(test=name, verdict=verdict, reason=reason, remedy=remedy, results=(result,))


def test_every_missing_right_is_named_with_its_role() -> None:
    forbidden = ended(
        "a", "VXLAN-10", f"the run's user may not {RIGHTS[0]} and 1 more", "bind a role"
    )
    assert lines_about_tests_not_run([forbidden], LACKING) == [
        f"dry run: 1 test would not run: the run's user may not {'; '.join(RIGHTS)}; not run for "
        "that reason: VXLAN-10; "
        "bind the role of manifests/rbac/disruptive.yaml"
    ]


def test_each_other_reason_is_one_line_with_what_to_do() -> None:
    flag = ended(
        "b", "RST-3", "it changes something outside the run's own namespaces", "allow that"
    )
    not_here = [
        ended(f"t{n}", f"BGP-{n}", "it is about mode bgp", verdict=ClaimVerdict.NOT_APPLICABLE)
        for n in (1, 2)
    ]
    assert lines_about_tests_not_run([*not_here, flag], LACKING) == [
        "dry run: 2 tests would not run (BGP-1, BGP-2): it is about mode bgp",
        "dry run: 1 test would not run (RST-3): it changes something outside the run's own namespaces; allow that",
    ]


def test_what_runs_is_not_named() -> None:
    assert (
        lines_about_tests_not_run(
            [ended("c", "DEMO-1", "", verdict=ClaimVerdict.CONFIRMED)], LACKING
        )
        == []
    )
