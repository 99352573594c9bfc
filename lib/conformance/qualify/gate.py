# SPDX-License-Identifier: Apache-2.0
"""The gate: does a report show what a named set demands, on each Windows build, and what is in the way?

Three answers: ``qualified``; ``not qualified``, since something is decided and not acceptable; ``incomplete``, since
something is not decided.  What a lab shows qualifies nothing, and is said so.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from conformance.catalog import Catalog, Claim, NotApplicable, applicability
from conformance.model.claim import ClaimResult
from conformance.model.counted import counted
from conformance.model.facts import Facts
from conformance.model.verdict import ClaimVerdict
from conformance.qualify.sets import Demand, GateSet
from conformance.qualify.stored import Report
from conformance.qualify.waivers import Waiver, waiver_for
from conformance.verdicts.acceptable import about_the_cluster, acceptable, on_build, unacceptable
from conformance.verdicts.claims import ClaimOutcome

Answer = Literal["qualified", "not qualified", "incomplete"]
WOULD = "would qualify"
"""What reports say in the place of ``qualified`` where the evidence is a lab's."""
NO_BUILD = "no Windows build"
"""Stands for the build where a cluster has no Windows node whose build is known."""

WHOLE = REPORT, RUN = "the report", "the run"
"""What an obstacle is about that is about no claim."""


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """What stands in the way, or was waived."""

    claim: str
    part: str
    found: str
    """A claim verdict by its name, ``not selected`` or ``not decided``."""
    reason: str
    waiver: Waiver | None = None
    decided: bool
    """Whether it is a decision about the cluster; else nothing is known."""

    def __str__(self) -> str:
        """``VXLAN-9 (changed) NOT_RUN: it needs --allow-disruptive``."""
        what = f"{self.claim} ({self.part})" if self.part else self.claim
        return str(self.waiver) if self.waiver else f"{what} {self.found}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """The answer for one set and one Windows build."""

    name: str
    mode: str
    build: str
    evidence: str
    obstacles: tuple[Obstacle, ...]
    """What is decided comes first."""

    @property
    def standing(self) -> tuple[Obstacle, ...]:
        """Those that no waiver accepts."""
        return tuple(obstacle for obstacle in self.obstacles if obstacle.waiver is None)

    @property
    def answer(self) -> Answer:
        if any(obstacle.decided for obstacle in self.standing):
            return "not qualified"
        return "incomplete" if self.standing else "qualified"

    @property
    def word(self) -> str:
        """The answer as it is told: a reader of this word alone must not take a lab's for a qualification."""
        return WOULD if self.answer == "qualified" and self.evidence != "field" else self.answer

    @property
    def headline(self) -> str:
        """``core on Windows 20348 (mode vxlan): not qualified (1 claim violated, 9 claims not selected)``."""
        words = f"{WOULD}; a lab qualifies nothing" if self.word == WOULD else self.word
        found = {
            each.claim: each.found for each in reversed(self.standing)
        }  # what is decided counts
        found = dict(reversed(found.items())) | {
            each.claim: "waived" for each in self.obstacles if each.claim not in found
        }
        told = Counter(said for claim, said in found.items() if claim not in WHOLE)
        counts = [f"{claim} {found[claim]}" for claim in WHOLE if claim in found]
        counts += [
            f"{counted(number, 'claim')} {said.lower().replace('_', ' ')}"
            for said, number in told.items()
        ]
        build = self.build if self.build == NO_BUILD else f"Windows {self.build}"
        return f"{self.name} on {build} (mode {self.mode}): {words}" + (
            f" ({', '.join(counts)})" if counts else ""
        )


def judge(
    report: Report, required: Sequence[GateSet], waivers: Sequence[Waiver], claims: Catalog
) -> tuple[GateResult, ...]:
    """One result for each set and Windows build, in this order."""
    return tuple(
        GateResult(
            name=gate_set.name,
            mode=report.mode,
            build=build,
            evidence=report.evidence,
            obstacles=tuple(
                sorted(
                    _obstacles(report, gate_set, build, waivers, claims),
                    key=lambda obstacle: not obstacle.decided,
                )
            ),
        )
        for gate_set in required
        for build in report.builds or (NO_BUILD,)
    )


def exit_code(results: Sequence[GateResult]) -> int:
    """0 all qualified, 1 one is not, 6 one could not be decided (architecture, section 4)."""
    answers = {result.answer for result in results}
    if "not qualified" in answers:
        return 1
    return 6 if "incomplete" in answers else 0


def unused(waivers: Sequence[Waiver], results: Sequence[GateResult]) -> tuple[Waiver, ...]:
    """Waivers that accepted nothing: their exception is gone, or never was."""
    used = {
        id(obstacle.waiver)
        for result in results
        for obstacle in result.obstacles
        if obstacle.waiver
    }
    return tuple(waiver for waiver in waivers if id(waiver) not in used)


def _obstacles(
    report: Report, required: GateSet, build: str, waivers: Sequence[Waiver], claims: Catalog
) -> Iterator[Obstacle]:
    if report.schema == "1":
        reason = "schema 1 tells neither on which builds a claim was decided nor whether the run got to its end"
        yield _open(REPORT, "", "too old", reason)
    if report.facts is None:
        yield _open(REPORT, "", "about no cluster", "it holds no facts")
    if report.cut_short:
        yield _open(RUN, "", "cut short", report.cut_short)
    for demand in required.demands:
        claim = report.claims.get(demand.claim)
        if claim is None:
            yield _open(demand.claim, "", "not in the report", "its catalog has no such claim")
            continue
        excused = _excused(report, claim, demand, build, claims)
        for obstacle in _of_claim(claim, demand, build, waivers):
            if obstacle.part in demand.provisional:
                asked = obstacle.found == ClaimVerdict.VIOLATED
            else:
                asked = obstacle.decided or obstacle.part not in excused
            if asked:
                yield obstacle


def _of_build(facts: Facts, build: str) -> Facts:
    """Return the facts with the Windows nodes of one build alone."""
    nodes = facts.by_os("windows")
    return facts.with_windows(tuple(node.name for node in nodes if build in (node.build, NO_BUILD)))


def _excused(
    report: Report, claim: ClaimOutcome, demand: Demand, build: str, claims: Catalog
) -> set[str]:
    """Parts of a claim ("": the claim as a whole) that are not about this cluster's nodes of a build.

    Where that would leave nothing of the claim to ask for, only those whose condition the set names.
    """
    if report.facts is None or demand.claim not in claims:
        return set()
    facts = _of_build(report.facts, build)
    known = claims[demand.claim]
    parts = {*demand.parts, *(result.part for result in claim.results)}
    whole = applicability(known, facts)
    if isinstance(whole, NotApplicable):
        return {"", *parts} if whole.key in demand.unless else set()
    answers = {
        part: applicability(known, facts, demand.applies[part])
        for part in parts & demand.applies.keys()
    }
    gone = {
        part: answer.key for part, answer in answers.items() if isinstance(answer, NotApplicable)
    }
    if not demand.parts or not set(demand.parts) <= gone.keys():
        return set(gone)
    named = {part for part, key in gone.items() if key in demand.unless}
    return {"", *named} if set(demand.parts) <= named else named


def _of_claim(
    claim: ClaimOutcome, demand: Demand, build: str, waivers: Sequence[Waiver]
) -> Iterator[Obstacle]:
    if not claim.results:
        if claim.verdict is None:
            yield _open(demand.claim, "", "not selected", claim.reason)
        elif not acceptable(claim.claim.kind, claim.verdict):
            accepted = waiver_for(waivers, demand.claim, claim.verdict, part="", build=build)
            yield _said(demand.claim, "", claim.verdict, claim.reason, accepted)
        return
    heard = () if demand.only else tuple(result.part for result in claim.results)
    for part in dict.fromkeys((*demand.parts, *heard)):
        results = [result for result in claim.results if result.part == part]
        if results:
            yield from _of_part(claim.claim, part, results, build, waivers)
        else:
            yield _open(demand.claim, part, "not selected", "no test of this part was in the run")


def _of_part(
    claim: Claim,
    part: str,
    results: Sequence[ClaimResult],
    build: str,
    waivers: Sequence[Waiver],
) -> Iterator[Obstacle]:
    """One for each sort of verdict that is not acceptable: what is waived hides nothing that is not."""
    found = on_build(results, build)
    if not found:
        yield _open(claim.id, part, "not decided", f"no decision of it is about Windows {build}")
    for said in unacceptable(claim.kind, found):
        accepted = [
            waiver_for(waivers, claim.id, said.verdict, part=part, build=place)
            for place in said.places
        ]
        yield _said(
            claim.id, part, said.verdict, said.reason, accepted[0] if all(accepted) else None
        )


def _said(
    claim: str, part: str, verdict: ClaimVerdict, reason: str, waiver: Waiver | None
) -> Obstacle:
    return Obstacle(
        claim=claim,
        part=part,
        found=str(verdict),
        reason=reason,
        waiver=waiver,
        decided=about_the_cluster(verdict),
    )


def _open(claim: str, part: str, found: str, reason: str) -> Obstacle:
    return Obstacle(claim=claim, part=part, found=found, reason=reason, decided=False)
