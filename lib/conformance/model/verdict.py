# SPDX-License-Identifier: Apache-2.0
"""The verdicts of claims, by the claim's kind, and which verdict counts."""

from dataclasses import dataclass
from enum import StrEnum


class ClaimKind(StrEnum):
    """The kind of a claim's statement; it decides the meaning of a failed check."""

    CAPABILITY = "capability"
    REQUIREMENT = "requirement"
    LIMITATION = "limitation"
    KNOWN_ISSUE = "known issue"
    RECOMMENDATION = "recommendation"


class ClaimVerdict(StrEnum):
    """The verdict of a run for a claim."""

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
    """A verdict with its reason (one line that is understood alone) and the advice."""

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
"""The order of verdicts: the first that occurs among a claim's results is the claim's verdict."""


def precedence(kind: ClaimKind) -> tuple[ClaimVerdict, ...]:
    """Return :data:`PRECEDENCE` for a claim of this kind.

    For a limitation or known issue, a build that still has the defect counts before a build that
    does not.
    """
    if kind not in (ClaimKind.LIMITATION, ClaimKind.KNOWN_ISSUE):
        return PRECEDENCE
    others = [verdict for verdict in PRECEDENCE if verdict is not ClaimVerdict.LIFTED]
    place = others.index(ClaimVerdict.CONFIRMED) + 1
    return (*others[:place], ClaimVerdict.LIFTED, *others[place:])
