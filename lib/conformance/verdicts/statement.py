# SPDX-License-Identifier: Apache-2.0
"""The meaning of an exception for the claims of its test. Pure; the hooks that use this module are
in ``judge``."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from conformance.catalog import Claim
from conformance.errors import MissingCapability, reason_of
from conformance.model.claim import ClaimKind, ClaimResult, ClaimVerdict, Finding
from conformance.model.decision import Decision
from conformance.model.explanation import Explanation
from conformance.model.figures import Figures
from conformance.verdicts.meaning import of_error

SETTLED = (ClaimVerdict.VIOLATED, ClaimVerdict.INCONCLUSIVE)
"""Verdicts that no later verdict replaces."""


@dataclass(kw_only=True)
class Statement:
    """The findings of a test so far."""

    raised: Finding | None = None
    """The finding from the test's exception. None: nothing was raised, so the decisions of the
    test's expectations count (:mod:`conformance.verdicts.judged`)."""
    in_body: bool = False
    """True if the test's body raised the exception."""
    special: dict[str, Finding] = field(default_factory=dict)
    """LIFTED, NOT_OBSERVED or ADVISED, with the reason, for each claim. An empty key stands for all
    claims of the test."""
    measured: dict[str, float | str] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    figures: Callable[[], Figures] = Figures
    """A function that returns how many attempts paths needed, and how long changes of policy took
    to have an effect."""
    decisions: list[Decision] = field(default_factory=list)
    """Decisions of the test's expectations, path by path."""
    calling: bool = False
    """True while the test's body is running."""

    explanation: Explanation | None = None
    """The explanation of the failure that counts."""
    cause: str = ""
    """The cause of the failure, see :attr:`Explanation.cause`."""
    results: tuple[ClaimResult, ...] | None = None
    """The results for each claim of the test; None: not known yet, or out of date."""

    def say(self, found: Finding) -> None:
        """Record a raised exception. A later exception never hides a violation, and a skip never
        hides an error."""
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
        self.decisions.extend(decisions)
        self.results = None

    def say_instead(self, claim: str, found: Finding) -> None:
        """Record a finding that replaces CONFIRMED for a claim."""
        self.special[claim] = found
        self.results = None


def from_body(error: BaseException) -> Finding:
    """Return the meaning of an exception from a test's body for its claims."""
    verdict = of_error(error)
    return Finding(
        verdict, reason_of(error), error.remedy if isinstance(error, MissingCapability) else ""
    )


def unmet_for(claim: Claim) -> ClaimVerdict:
    """Return the verdict of an unmet demand: only requirements and recommendations make demands."""
    if claim.kind is ClaimKind.REQUIREMENT:
        return ClaimVerdict.UNMET
    if claim.kind is ClaimKind.RECOMMENDATION:
        return ClaimVerdict.ADVISED
    return ClaimVerdict.VIOLATED
