# SPDX-License-Identifier: Apache-2.0
"""The result of a test for a claim, computed from the test's decisions about each build. A result
without decisions is never CONFIRMED."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from conformance.catalog import Claim
from conformance.model.claim import ClaimResult, ClaimVerdict, Finding
from conformance.model.decision import Decision
from conformance.verdicts.claims import decides, worst
from conformance.verdicts.decisions import by_build, folded, over_builds
from conformance.verdicts.statement import Statement, unmet_for

NOTHING = "its test decided nothing: the body did not run, or none of its expectations did"
NO_DENIAL = "no path was found closed, although the claim is that a path is closed"
WITHOUT_DENIAL = (ClaimVerdict.VIOLATED, ClaimVerdict.INCONCLUSIVE, ClaimVerdict.LIFTED)
"""The verdicts that open paths can give to a claim about closed paths."""
REMEDY = "run the test without plugins and options that skip calls (--setup-plan, --setup-only)"
ELSEWHERE = "look at the run's other verdicts about that node, and run it again"


def judged(
    claim: Claim, part: str, test: str, statement: Statement, builds: Mapping[str, str]
) -> ClaimResult:
    """Return the result of a test for one claim and part, also if the test broke before it ran.

    ``builds``: Windows builds that the part must cover, with a node of each; uncovered builds are
    NOT_RUN.
    """
    decisions = _decisions(claim, part, test, statement, builds)
    raised = _raised(claim, part, statement)
    about = [decision for decision in decisions if decides(decision, claim)]
    if raised is None and not about:
        found = Finding(ClaimVerdict.NOT_RUN, NOTHING, REMEDY)
        decisions = ()
    else:
        unreached = [] if raised else _unreached(claim, part, test, decisions, builds)
        found = _together(claim, [*about, *unreached], raised)
        if raised is None and _lacks_denial(claim, decisions, found):
            found = Finding(ClaimVerdict.NOT_RUN, NO_DENIAL, REMEDY)
        decisions = (*decisions, *unreached)
    return ClaimResult(
        claim=claim.id,
        verdict=found.verdict,
        test=test,
        part=part,
        reason=found.reason,
        remedy=found.remedy,
        measured=dict(statement.measured),
        decisions=decisions,
    )


def _raised(claim: Claim, part: str, statement: Statement) -> Finding | None:
    """Return the finding from a test's exception if it counts for a claim and part, else None.

    The finding does not count if decisions that name claims have the same verdict: they show which
    claims and parts it concerns.
    """
    raised = statement.raised
    if raised is None or all(
        decision.verdict is not raised.verdict for decision in statement.decisions
    ):
        return raised
    of_claims = [decision for decision in statement.decisions if decision.claim]
    own = any(decision.claim == claim.id and _is_about(decision, part) for decision in of_claims)
    if own and statement.in_body:  # the test decided this claim separately
        return None
    # The exception only repeats the worst of the decisions that name claims.
    by_claim = raised.verdict is ClaimVerdict.VIOLATED and any(
        not decision.part for decision in of_claims
    )
    return None if by_claim else raised


def _is_about(decision: Decision, part: str) -> bool:
    """Return whether a decision counts for a part; for a claim without parts, each decision
    does."""
    return not part or part.endswith(decision.part)


def _lacks_denial(claim: Claim, decisions: Sequence[Decision], found: Finding) -> bool:
    """Return whether a claim that requires closed paths was decided by open paths alone."""
    denied = any("closed" in decision.halves for decision in decisions)
    return claim.denial and not denied and found.verdict not in WITHOUT_DENIAL


def of_test(results: Sequence[ClaimResult], raised: Finding | None) -> Finding:
    """Return a test's own result: its worst verdict, and the message of its exception, if any."""
    if not results:
        return raised or Finding(ClaimVerdict.CONFIRMED)
    verdict = worst({result.verdict for result in results})
    if raised or verdict is ClaimVerdict.CONFIRMED:
        return replace(raised or Finding(verdict), verdict=verdict)
    first = next(result for result in results if result.verdict is verdict)
    return Finding(verdict, first.reason, first.remedy)


def _together(claim: Claim, about: Sequence[Decision], raised: Finding | None) -> Finding:
    """Return the verdict that counts among the decisions about a claim and the test's exception."""
    reasons = {decision.verdict: decision.reason for decision in reversed(about)}
    if raised:
        reasons[unmet_for(claim) if raised.verdict is ClaimVerdict.UNMET else raised.verdict] = (
            raised.reason
        )
    verdict = over_builds(reasons, by_build(about))
    reason = claim.statement if verdict is ClaimVerdict.CONFIRMED else reasons[verdict]
    remedy = raised.remedy if raised else ""
    return Finding(
        verdict, reason, remedy or (ELSEWHERE if verdict is ClaimVerdict.NOT_RUN else "")
    )


def _decisions(
    claim: Claim, part: str, test: str, statement: Statement, builds: Mapping[str, str]
) -> tuple[Decision, ...]:
    """Return a decision for each pair of nodes, about builds that the claim is about."""
    special = statement.special.get(claim.id) or statement.special.get("")
    found = [
        replace(decision, claim=claim.id, part=part, test=test, about=_about(decision, builds))
        for decision in folded(
            decision
            for decision in statement.decisions
            if decision.claim in ("", claim.id) and _is_about(decision, part)
        )
    ]
    instead: dict[ClaimVerdict, dict[str, Any]] = {
        ClaimVerdict.UNMET: {"verdict": unmet_for(claim)}
    }
    if special:
        instead[ClaimVerdict.CONFIRMED] = {"verdict": special.verdict, "reason": special.reason}
    return tuple(replace(decision, **instead.get(decision.verdict, {})) for decision in found)


def _about(decision: Decision, builds: Mapping[str, str]) -> tuple[str, ...]:
    """Return the Windows builds for which a decision counts, limited to ``builds``.

    If the limit leaves none, return the builds of both ends, limited in the same way. If it leaves
    none of these either, return all builds that the decision is about.
    """
    for candidates in (decision.about, decision.builds):
        if fits := tuple(build for build in candidates if build in builds):
            return fits
    return decision.about


def _unreached(
    claim: Claim, part: str, test: str, decisions: Sequence[Decision], builds: Mapping[str, str]
) -> list[Decision]:
    """Return a NOT_RUN decision for each build that the part must cover and did not cover; return
    no decisions if no decision is about a build."""
    reached = {build for decision in decisions for build in decision.about}
    if not reached:
        return []
    return [
        Decision(
            claim=claim.id,
            part=part,
            test=test,
            source="",
            target=node,
            builds=(build,),
            about=(build,),
            verdict=ClaimVerdict.NOT_RUN,
            reason=f"it was decided on {', '.join(sorted(reached))}, not on {build} (node {node})",
            halves=(),
        )
        for build, node in builds.items()
        if build not in reached
    ]
