# SPDX-License-Identifier: Apache-2.0
"""The letter and the word that pytest prints for each test: its verdict."""

from typing import Any

import pytest

from conformance.model.claim import ClaimVerdict
from conformance.plugin.judge.stash import WAITS
from conformance.verdicts.attempts import FLAKY

CRASH = "the worker's crash"
"""The phase of the report that xdist makes for a test whose worker died; pytest's headline prints
the phase."""
_STATUS: dict[ClaimVerdict, tuple[str, str, Any]] = {
    ClaimVerdict.CONFIRMED: ("passed", ".", "CONFIRMED"),
    ClaimVerdict.VIOLATED: ("failed", "F", ("VIOLATED", {"red": True})),
    ClaimVerdict.INCONCLUSIVE: ("error", "E", ("INCONCLUSIVE", {"red": True})),
    ClaimVerdict.UNMET: ("unmet", "U", ("UNMET", {"yellow": True})),
    ClaimVerdict.ADVISED: ("advised", "A", ("ADVISED", {"yellow": True})),
    ClaimVerdict.LIFTED: ("lifted", "L", ("LIFTED", {"yellow": True})),
    ClaimVerdict.NOT_OBSERVED: ("not observed", "o", ("NOT_OBSERVED", {"green": True})),
    ClaimVerdict.NOT_RUN: ("skipped", "n", ("NOT_RUN", {"yellow": True})),
    ClaimVerdict.NOT_APPLICABLE: ("skipped", "-", "NOT_APPLICABLE"),
}


def of(report: pytest.TestReport) -> tuple[str, str, Any] | None:
    """Return pytest's category, letter and word for a report; None to leave them to pytest."""
    verdict = next(
        (value for name, value in getattr(report, "user_properties", ()) if name == "verdict"),
        None,
    )
    if str(report.when) == CRASH:
        return _STATUS[ClaimVerdict.INCONCLUSIVE]
    if str(report.outcome) == WAITS:
        return WAITS, "w", (WAITS.upper(), {"yellow": True})
    if (
        verdict is None
        or str(report.outcome) == "rerun"
        or (report.when == "setup" and report.passed)
    ):
        return None
    if report.when == "teardown":
        return ("error", "E", ("INCONCLUSIVE", {"red": True})) if report.failed else None
    status = _STATUS.get(ClaimVerdict(str(verdict)))
    if status and any(name == FLAKY.lower() for name, _ in report.user_properties):
        kind, letter, _ = status
        return kind, letter, (f"{verdict} {FLAKY}", {"red": True})
    return status
