# SPDX-License-Identifier: Apache-2.0
"""What a run can say about a claim, by the claim's kind, and which of several verdicts counts."""

from dataclasses import dataclass
from enum import StrEnum


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


@dataclass(frozen=True)
class Finding:
    """A verdict with its reason, one line that is enough on its own, and what to do about it."""

    verdict: ClaimVerdict
    reason: str = ""
    remedy: str = ""


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


def precedence(kind: ClaimKind) -> tuple[ClaimVerdict, ...]:
    """:data:`PRECEDENCE` for a claim of this kind: of a limitation or a known issue a build that still has it counts
    before one that does not."""
    if kind not in (ClaimKind.LIMITATION, ClaimKind.KNOWN_ISSUE):
        return PRECEDENCE
    others = [verdict for verdict in PRECEDENCE if verdict is not ClaimVerdict.LIFTED]
    place = others.index(ClaimVerdict.CONFIRMED) + 1
    return (*others[:place], ClaimVerdict.LIFTED, *others[place:])
