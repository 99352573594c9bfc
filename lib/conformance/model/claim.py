"""Claims and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal


class ClaimKind(StrEnum):
    """What sort of statement a claim is; decides what a failed check means."""

    CAPABILITY = "capability"
    REQUIREMENT = "requirement"
    LIMITATION = "limitation"
    KNOWN_ISSUE = "known issue"
    RECOMMENDATION = "recommendation"


class ClaimVerdict(StrEnum):
    """What a run says about one claim."""

    CONFIRMED = "CONFIRMED"
    VIOLATED = "VIOLATED"
    UNMET = "UNMET"
    ADVISED = "ADVISED"
    LIFTED = "LIFTED"
    NOT_OBSERVED = "NOT_OBSERVED"
    NOT_APPLICABLE = "NOT_APPLICABLE"
    NOT_RUN = "NOT_RUN"
    INCONCLUSIVE = "INCONCLUSIVE"


PRECEDENCE = (
    ClaimVerdict.VIOLATED,
    ClaimVerdict.INCONCLUSIVE,
    ClaimVerdict.UNMET,
    ClaimVerdict.NOT_RUN,
    ClaimVerdict.LIFTED,
    ClaimVerdict.ADVISED,
    ClaimVerdict.CONFIRMED,
    ClaimVerdict.NOT_OBSERVED,
    ClaimVerdict.NOT_APPLICABLE,
)
"""Several results of one claim: the first of these that occurs is the claim's verdict."""


@dataclass(frozen=True, kw_only=True)
class ClaimResult:
    """What one test says about one claim; handed from the test's process by pytest's ``user_properties``."""

    claim: str
    verdict: ClaimVerdict
    test: str
    """The test's node id."""
    reason: str
    """One line: enough on its own."""
    part: str = ""
    """Which part of the claim this test decides (an OS direction, a path), stable from run to run."""
    remedy: str = ""
    evidence: Literal["lab", "field"] = "field"
    measured: dict[str, float | str] = field(default_factory=dict)
    """Figures worth keeping: seconds to first correct answer, tries ..."""
