# SPDX-License-Identifier: Apache-2.0
"""Notes on tests that do not run, mainly because of rights that the run's user lacks."""

from collections.abc import Mapping, Sequence

from conformance.facts.rights import RBAC_ROLES
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.verdicts.claims import TestOutcome


def claims_blocked_by_missing_rights(
    lacking: Mapping[str, Sequence[str]], tests: Sequence[TestOutcome]
) -> list[str]:
    """Return a note for each kind of test that did not run: the missing rights, and the role that
    grants them."""
    notes = []
    for use, rights in lacking.items():
        claims = dict.fromkeys(
            result.claim
            for test in tests
            for result in test.results
            if result.verdict is ClaimVerdict.NOT_RUN and rights[0] in result.reason
        )
        if claims:
            notes.append(
                f"the run's user may not {'; '.join(rights)}; not run for that reason: "
                f"{', '.join(claims)}; "
                f"bind the role of manifests/rbac/{RBAC_ROLES[use]}.yaml"
            )
    return notes


def lines_about_tests_not_run(
    tests: Sequence[TestOutcome], lacking: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return, for a dry run, a line for each reason why tests would not run, with every missing
    right."""
    reasons: dict[str, list[TestOutcome]] = {}
    for test in tests:
        if test.verdict in (ClaimVerdict.NOT_RUN, ClaimVerdict.NOT_APPLICABLE):
            reasons.setdefault("; ".join(filter(None, (test.reason, test.remedy))), []).append(test)
    lines = []
    for reason, group in reasons.items():
        head = f"dry run: {counted(len(group), 'test')} would not run"
        claims = dict.fromkeys(result.claim for test in group for result in test.results)
        rights = [f"{head}: {note}" for note in claims_blocked_by_missing_rights(lacking, group)]
        lines += rights or [f"{head} ({', '.join(claims) or 'no claim'}): {reason}"]
    return lines
