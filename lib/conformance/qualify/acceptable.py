"""Which verdicts a reader can live with, by kind of claim: the one table behind gates and comparisons."""

from typing import Literal

from conformance.model.verdict import ClaimKind, ClaimVerdict

ACCEPTABLE: dict[ClaimKind, frozenset[ClaimVerdict]] = {
    ClaimKind.CAPABILITY: frozenset({ClaimVerdict.CONFIRMED}),
    ClaimKind.REQUIREMENT: frozenset({ClaimVerdict.CONFIRMED}),
    ClaimKind.LIMITATION: frozenset({ClaimVerdict.CONFIRMED, ClaimVerdict.LIFTED, ClaimVerdict.NOT_OBSERVED}),
    ClaimKind.KNOWN_ISSUE: frozenset({ClaimVerdict.CONFIRMED, ClaimVerdict.LIFTED, ClaimVerdict.NOT_OBSERVED}),
    ClaimKind.RECOMMENDATION: frozenset({ClaimVerdict.CONFIRMED, ClaimVerdict.ADVISED}),
}
"""NOT_APPLICABLE is acceptable besides, but only where a gate's set names the condition."""

UNDECIDED = frozenset({ClaimVerdict.NOT_RUN, ClaimVerdict.INCONCLUSIVE})
"""Verdicts that say nothing about the cluster; together with "not selected" they leave a gate incomplete."""

Turn = Literal["worse", "better", "undecided now", "decided now", "same"]
"""What became of a claim between two reports."""


def acceptable(kind: ClaimKind, verdict: ClaimVerdict) -> bool:
    """Whether a gate passes a claim of this kind with this verdict, NOT_APPLICABLE aside."""
    return verdict in ACCEPTABLE[kind]


def turn(kind: ClaimKind, before: ClaimVerdict | None, now: ClaimVerdict | None) -> Turn:
    """What a claim became; None: not selected.

    Worse is what was acceptable and is not: VIOLATED, UNMET.  What is merely not decided any more is told apart, since
    it says nothing about the cluster.  CONFIRMED and NOT_OBSERVED of what can happen are the same.
    """

    def good(verdict: ClaimVerdict | None) -> bool:
        return verdict is not None and (verdict is ClaimVerdict.NOT_APPLICABLE or acceptable(kind, verdict))

    def open_(verdict: ClaimVerdict | None) -> bool:
        return verdict is None or verdict in UNDECIDED

    if open_(now):
        return "same" if open_(before) else "undecided now"
    if good(before) and not good(now):
        return "worse"
    if open_(before):
        return "decided now" if good(now) else "worse"
    return "better" if good(now) and not good(before) else "same"
