# SPDX-License-Identifier: Apache-2.0
"""Which verdicts a reader can live with, by kind of claim: the one table behind gates and comparisons."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from conformance.model.claim import ClaimResult
from conformance.model.verdict import ClaimKind, ClaimVerdict, precedence

ACCEPTABLE: dict[ClaimKind, frozenset[ClaimVerdict]] = {
    ClaimKind.CAPABILITY: frozenset({ClaimVerdict.CONFIRMED}),
    ClaimKind.REQUIREMENT: frozenset({ClaimVerdict.CONFIRMED}),
    ClaimKind.LIMITATION: frozenset(
        {ClaimVerdict.CONFIRMED, ClaimVerdict.LIFTED, ClaimVerdict.NOT_OBSERVED}
    ),
    ClaimKind.KNOWN_ISSUE: frozenset(
        {ClaimVerdict.CONFIRMED, ClaimVerdict.LIFTED, ClaimVerdict.NOT_OBSERVED}
    ),
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


def about_the_cluster(verdict: ClaimVerdict) -> bool:
    """Whether a verdict decides something about the cluster; else nothing is known, or the claim is not about it."""
    return verdict not in UNDECIDED and verdict is not ClaimVerdict.NOT_APPLICABLE


@dataclass(frozen=True)
class Said:
    """A verdict that counts for a build."""

    verdict: ClaimVerdict
    reason: str
    places: tuple[str, ...]
    """The build, or empty: it is about no build, so that no waiver for one accepts it."""


def on_build(results: Sequence[ClaimResult], build: str) -> list[Said]:
    """What a part's tests decided for one Windows build; empty: they decided nothing about it.

    A decision between Linux nodes, or about the cluster as a whole, is one about every build.
    """
    found: list[Said] = []
    for result in results:
        found += (
            Said(decision.verdict, decision.reason, (build if decision.about else "",))
            for decision in result.decisions
            if not decision.about or build in decision.about
        )
        if not any(decision.verdict is result.verdict for decision in result.decisions):
            # What ended the test belongs to no node.
            found.append(Said(result.verdict, result.reason, ("",)))
    return found


def unacceptable(kind: ClaimKind, found: Sequence[Said]) -> Iterator[Said]:
    """Each sort of verdict with which no gate passes a claim, and all places of it; the worst first.

    That some nodes are not concerned, where others are, is none.
    """
    for verdict in precedence(kind):
        of_it = [said for said in found if said.verdict is verdict]
        beside = verdict is ClaimVerdict.NOT_APPLICABLE and len(of_it) < len(found)
        if of_it and not acceptable(kind, verdict) and not beside:
            yield Said(
                verdict,
                of_it[0].reason,
                tuple(sorted({place for said in of_it for place in said.places})),
            )


def turn(kind: ClaimKind, before: ClaimVerdict | None, now: ClaimVerdict | None) -> Turn:
    """What a claim became; None: not selected.

    Worse is what was acceptable and is not: VIOLATED, UNMET.  What is merely not decided any more is told apart, since
    it says nothing about the cluster.  CONFIRMED and NOT_OBSERVED of what can happen are the same.
    """

    def good(verdict: ClaimVerdict | None) -> bool:
        return verdict is not None and (
            verdict is ClaimVerdict.NOT_APPLICABLE or acceptable(kind, verdict)
        )

    def open_(verdict: ClaimVerdict | None) -> bool:
        return verdict is None or verdict in UNDECIDED

    if open_(now):
        return "same" if open_(before) else "undecided now"
    if good(before) and not good(now):
        return "worse"
    if open_(before):
        return "decided now" if good(now) else "worse"
    return "better" if good(now) and not good(before) else "same"
