"""What it costs that the run's user lacks rights: which claims were not decided for which missing right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.cluster.rights import ROLES
from conformance.model.claim import ClaimVerdict
from conformance.report.outcomes import TestOutcome


def lost_for_want_of(lacking: Mapping[str, Sequence[str]], tests: Sequence[TestOutcome]) -> list[str]:
    """One note per kind of test that did not run, with every right that is missing, and the role that grants them."""
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
                f"the run's user may not {'; '.join(rights)}: this costs {', '.join(claims)}; "
                f"bind the role of manifests/rbac/{ROLES[use]}.yaml"
            )
    return notes
