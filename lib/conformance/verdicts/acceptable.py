# SPDX-License-Identifier: Apache-2.0
"""The verdicts that are acceptable, by kind of claim: the only table that gates and comparisons
use."""

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
"""The acceptable verdicts of each kind of claim. NOT_APPLICABLE is also acceptable, but only if a
gate's set names the condition."""

UNDECIDED = frozenset({ClaimVerdict.NOT_RUN, ClaimVerdict.INCONCLUSIVE})
"""Verdicts that decide nothing about the cluster; a claim with such a verdict, or a claim that was
not selected, leaves a gate incomplete."""

Turn = Literal["worse", "better", "undecided now", "decided now", "same"]
"""The change of a claim between two reports."""


def acceptable(kind: ClaimKind, verdict: ClaimVerdict) -> bool:
    """Return whether a gate passes a claim of this kind with this verdict; NOT_APPLICABLE is
    decided elsewhere (see :data:`ACCEPTABLE`)."""
    return verdict in ACCEPTABLE[kind]


def about_the_cluster(verdict: ClaimVerdict) -> bool:
    """Return whether a verdict decides something about the cluster: it is neither undecided nor
    NOT_APPLICABLE.
    """
    return verdict not in UNDECIDED and verdict is not ClaimVerdict.NOT_APPLICABLE


@dataclass(frozen=True)
class BuildVerdict:
    """A verdict that counts for a build."""

    verdict: ClaimVerdict
    reason: str
    places: tuple[str, ...]
    """The names of the builds for which the verdict counts. An empty name means that the verdict is
    about no build, so no waiver for a build accepts it."""


def on_build(results: Sequence[ClaimResult], build: str) -> list[BuildVerdict]:
    """Return the verdicts of a part's tests that count for a Windows build.

    A decision between Linux nodes, or about the cluster as a whole, counts for every build.
    """
    found: list[BuildVerdict] = []
    for result in results:
        found += (
            BuildVerdict(decision.verdict, decision.reason, (build if decision.about else "",))
            for decision in result.decisions
            if not decision.about or build in decision.about
        )
        if not any(decision.verdict is result.verdict for decision in result.decisions):
            # No decision has this verdict: it is about the test as a whole, and about no node.
            found.append(BuildVerdict(result.verdict, result.reason, ("",)))
    return found


def unacceptable(kind: ClaimKind, found: Sequence[BuildVerdict]) -> Iterator[BuildVerdict]:
    """Yield each kind of verdict that no gate accepts, with all its places, the worst first.
    NOT_APPLICABLE on some nodes is acceptable if the claim applies to other nodes."""
    for verdict in precedence(kind):
        of_it = [finding for finding in found if finding.verdict is verdict]
        beside = verdict is ClaimVerdict.NOT_APPLICABLE and len(of_it) < len(found)
        if of_it and not acceptable(kind, verdict) and not beside:
            yield BuildVerdict(
                verdict,
                of_it[0].reason,
                tuple(sorted({place for finding in of_it for place in finding.places})),
            )


def turn(kind: ClaimKind, before: ClaimVerdict | None, now: ClaimVerdict | None) -> Turn:
    """Return how a claim's verdict changed. ``before`` and ``now``: None if the claim was not
    selected.

    A claim becomes worse if its verdict is not acceptable now (VIOLATED, UNMET), and was acceptable
    or undecided before. A claim that was decided before and is undecided now is listed separately,
    since this shows nothing about the cluster. CONFIRMED and NOT_OBSERVED of a claim that "can
    happen" count as equal.
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
