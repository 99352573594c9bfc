"""From what a test's expectations decided to its result about one claim: never from nothing, and for each build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from conformance.catalog import Claim
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision, Seen
from conformance.verdicts.claims import speaks
from conformance.verdicts.decisions import by_build, folded, over_builds
from conformance.verdicts.statement import Statement, unmet_for

NOTHING = "its test decided nothing: the body did not run, or none of its expectations did"
NO_DENIAL = "nothing was seen closed, and what the claim says is that something is"
REMEDY = "run it without plugins and options that leave out calls (--setup-plan, --setup-only)"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What a test's decisions say about one claim and part."""

    verdict: ClaimVerdict
    reason: str
    remedy: str = ""
    decisions: tuple[Decision, ...] = ()


def judged(claim: Claim, part: str, test: str, statement: Statement, builds: Mapping[str, str]) -> Judged:
    """The result of a test that ran, or tried to.

    ``builds``: Windows builds that the part has to reach, with a node of each; what it did not reach is NOT_RUN.
    """
    decisions = _decisions(claim, part, test, statement, builds)
    if statement.verdict is None:
        if not any(speaks(decision, claim) for decision in decisions):
            return Judged(verdict=ClaimVerdict.NOT_RUN, reason=NOTHING, remedy=REMEDY)
        if claim.denial and not any("closed" in decision.halves for decision in decisions):
            return Judged(verdict=ClaimVerdict.NOT_RUN, reason=NO_DENIAL, remedy=REMEDY, decisions=decisions)
        decisions = (*decisions, *_unreached(claim, part, test, decisions, builds))
    said = {decision.verdict: decision.reason for decision in reversed(decisions) if speaks(decision, claim)}
    remedy = ""
    if statement.verdict is not None:
        own = unmet_for(claim) if statement.verdict is ClaimVerdict.UNMET else statement.verdict
        said[own], remedy = statement.reason, statement.remedy
    verdict = over_builds(said, by_build([decision for decision in decisions if speaks(decision, claim)]))
    reason = claim.statement if verdict is ClaimVerdict.CONFIRMED else said[verdict]
    if verdict is ClaimVerdict.NOT_RUN and not remedy:
        remedy = "look at the run's other verdicts about that node, and run it again"
    return Judged(verdict=verdict, reason=reason, remedy=remedy, decisions=decisions)


def _decisions(
    claim: Claim, part: str, test: str, statement: Statement, builds: Mapping[str, str]
) -> tuple[Decision, ...]:
    """One for each pair of nodes, about builds that the claim is about."""
    special = statement.special.get(claim.id) or statement.special.get("")
    found = []
    for seen in folded(statement.seen):
        verdict, reason = seen.verdict, seen.reason
        if verdict is ClaimVerdict.UNMET:
            verdict = unmet_for(claim)
        elif verdict is ClaimVerdict.CONFIRMED and special:
            verdict, reason = special
        kept = replace(seen, verdict=verdict, reason=reason, about=_about(seen, builds))
        found.append(Decision(claim=claim.id, part=part, test=test, **vars(kept)))
    return tuple(found)


def _about(seen: Seen, builds: Mapping[str, str]) -> tuple[str, ...]:
    """The builds of the verdict that the claim is about; the other end's where it is about none."""
    for candidates in (seen.about, seen.builds):
        if fits := tuple(build for build in candidates if build in builds):
            return fits
    return seen.about


def _unreached(
    claim: Claim, part: str, test: str, decisions: Sequence[Decision], builds: Mapping[str, str]
) -> list[Decision]:
    """One NOT_RUN for each build that the part has to reach and did not; none where it is about no node at all."""
    reached = {build for decision in decisions for build in decision.about}
    if not reached:
        return []
    return [
        Decision(
            claim=claim.id, part=part, test=test, source="", target=node, builds=(build,), about=(build,),
            verdict=ClaimVerdict.NOT_RUN, reason=f"it was decided on {', '.join(sorted(reached))}, not on {build} "
            f"(node {node})", halves=(),
        )
        for build, node in builds.items()
        if build not in reached
    ]  # fmt: skip
