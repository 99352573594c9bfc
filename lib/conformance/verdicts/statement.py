"""What an exception means for the claims of the test that raised it.  Pure; the hooks that use it are in ``judge``."""

from __future__ import annotations

from dataclasses import dataclass, field

from conformance.catalog import Claim
from conformance.errors import MissingCapability, NotAboutThisCluster, Unmet, first_line
from conformance.expect.figures import FigureLog
from conformance.model.claim import ClaimKind, ClaimVerdict
from conformance.model.decision import Seen

SETTLED = (ClaimVerdict.VIOLATED, ClaimVerdict.INCONCLUSIVE)
"""What nothing that comes later covers up."""


@dataclass(kw_only=True)
class Statement:
    """What a test has said so far."""

    verdict: ClaimVerdict | None = None
    """None: nothing was raised; what its expectations decided then speaks (:mod:`conformance.verdicts.judged`)."""
    reason: str = ""
    remedy: str = ""
    special: dict[str, tuple[ClaimVerdict, str]] = field(default_factory=dict)
    """Claim (empty: all of the test's) to LIFTED, NOT_OBSERVED or ADVISED, with the reason."""
    measured: dict[str, float | str] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    figures: FigureLog = field(default_factory=FigureLog)
    seen: list[Seen] = field(default_factory=list)
    """What its expectations have decided, path by path."""
    calling: bool = False
    """Its body runs."""

    def say(self, verdict: ClaimVerdict, reason: str, remedy: str = "") -> None:
        """Note a verdict; a violation is never taken back, and an error is not covered up by a skip."""
        if self.verdict is ClaimVerdict.VIOLATED or (self.verdict in SETTLED and verdict not in SETTLED):
            return
        self.verdict, self.reason, self.remedy = verdict, reason, remedy


def from_body(error: BaseException) -> tuple[ClaimVerdict, str, str]:
    """Verdict, reason and remedy for what a test's body raised."""
    if isinstance(error, NotAboutThisCluster):
        return ClaimVerdict.NOT_APPLICABLE, first_line(error), ""
    if isinstance(error, MissingCapability):
        return ClaimVerdict.NOT_RUN, first_line(error), error.remedy
    if isinstance(error, Unmet):
        return ClaimVerdict.UNMET, first_line(error), ""
    if isinstance(error, AssertionError):
        return ClaimVerdict.VIOLATED, first_line(error), ""
    return ClaimVerdict.INCONCLUSIVE, f"{type(error).__name__}: {first_line(error)}", ""


def unmet_for(claim: Claim) -> ClaimVerdict:
    """What an unmet demand means for a claim: only requirements and recommendations make demands of a cluster."""
    if claim.kind is ClaimKind.REQUIREMENT:
        return ClaimVerdict.UNMET
    if claim.kind is ClaimKind.RECOMMENDATION:
        return ClaimVerdict.ADVISED
    return ClaimVerdict.VIOLATED
