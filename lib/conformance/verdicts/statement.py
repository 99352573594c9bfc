# SPDX-License-Identifier: Apache-2.0
"""What an exception means for the claims of the test that raised it.  Pure; the hooks that use it are in ``judge``."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from conformance.catalog import Claim
from conformance.errors import MissingCapability, first_line
from conformance.model.claim import ClaimKind, ClaimResult, ClaimVerdict, Finding
from conformance.model.decision import Decision
from conformance.model.explanation import Explanation
from conformance.model.figures import Figures
from conformance.verdicts.meaning import of_error

SETTLED = (ClaimVerdict.VIOLATED, ClaimVerdict.INCONCLUSIVE)
"""What nothing that comes later covers up."""


@dataclass(kw_only=True)
class Statement:
    """What a test has said so far."""

    raised: Finding | None = None
    """None: nothing was raised; what its expectations decided then counts (:mod:`conformance.verdicts.judged`)."""
    in_body: bool = False
    """What was raised was raised by its body."""
    special: dict[str, Finding] = field(default_factory=dict)
    """Claim (empty: all of the test's) to LIFTED, NOT_OBSERVED or ADVISED, with the reason."""
    measured: dict[str, float | str] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    figures: Callable[[], Figures] = Figures
    """Returns how many tries attempts needed, and when changes of policy showed."""
    seen: list[Decision] = field(default_factory=list)
    """What its expectations have decided, path by path."""
    calling: bool = False
    """Its body runs."""

    explanation: Explanation | None = None
    """What the failure that counts was made of."""
    cause: str = ""
    """What it fails of, as :attr:`Explanation.cause`."""
    results: tuple[ClaimResult, ...] | None = None
    """What it says of each of its claims; None: not known yet, or something was said since."""

    def say(self, found: Finding) -> None:
        """Note what was raised; a violation is never taken back, and an error is not covered up by a skip."""
        before = self.raised.verdict if self.raised else None
        if before is ClaimVerdict.VIOLATED or (before in SETTLED and found.verdict not in SETTLED):
            return
        self.raised = found
        self.in_body = self.calling
        self.results = None

    def measure(self, figures: Mapping[str, float | str]) -> None:
        self.measured.update(figures)
        self.results = None

    def keep(self, decisions: Iterable[Decision]) -> None:
        self.seen.extend(decisions)
        self.results = None

    def say_instead(self, claim: str, found: Finding) -> None:
        """Note what is to be said of a claim in the place of CONFIRMED."""
        self.special[claim], self.results = found, None


def from_body(error: BaseException) -> Finding:
    """Return what an exception that a test's body raised says of its claims."""
    verdict = of_error(error)
    line = first_line(error)
    told = f"{type(error).__name__}: {line}" if verdict is ClaimVerdict.INCONCLUSIVE else line
    return Finding(verdict, told, error.remedy if isinstance(error, MissingCapability) else "")


def unmet_for(claim: Claim) -> ClaimVerdict:
    """What an unmet demand means for a claim: only requirements and recommendations make demands of a cluster."""
    if claim.kind is ClaimKind.REQUIREMENT:
        return ClaimVerdict.UNMET
    if claim.kind is ClaimKind.RECOMMENDATION:
        return ClaimVerdict.ADVISED
    return ClaimVerdict.VIOLATED
