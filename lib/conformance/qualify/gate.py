# SPDX-License-Identifier: Apache-2.0
"""The gate: decides whether a report shows what a named set requires, on each Windows build, and
names the obstacles.

There are three answers: ``qualified``; ``not qualified``, if a decided result is not acceptable;
``incomplete``, if a required result is not decided. A lab qualifies nothing, and its answer says
so.
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
"""The word that replaces ``qualified`` if the evidence comes from a lab."""
NO_BUILD = "no Windows build"
"""A stand-in for the build of a cluster without a Windows node of known build."""

ACCEPTED_BY = "--accept-unverified-tls accepts it"
WHOLE = REPORT, RUN = "the report", "the run"
"""The names of obstacles that concern no claim."""


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """A claim that prevents qualification, or was waived."""

    claim: str
    part: str
    found: str
    """A claim verdict by its name, ``not selected`` or ``not decided``."""
    reason: str
    waiver: Waiver | None = None
    decided: bool
    """True if the obstacle is a decision about the cluster; False if nothing was decided."""

    def __str__(self) -> str:
        """Return ``VXLAN-9 (changed) NOT_RUN: it needs --allow-disruptive``."""
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
    """The obstacles, decisions first."""
    is_unverified: bool = False
    """True if the evidence came over an unverified connection."""

    @property
    def standing(self) -> tuple[Obstacle, ...]:
        """Return the obstacles that no waiver accepts."""
        return tuple(obstacle for obstacle in self.obstacles if obstacle.waiver is None)

    @property
    def answer(self) -> Answer:
        if any(obstacle.decided for obstacle in self.standing):
            return "not qualified"
        return "incomplete" if self.standing else "qualified"

    @property
    def word(self) -> str:
        """Return the answer as a word; for a lab, a word that cannot be mistaken for a
        qualification."""
        return WOULD if self.answer == "qualified" and self.evidence != "field" else self.answer

    @property
    def headline(self) -> str:
        """Return ``core on Windows 20348 (mode vxlan): not qualified (1 claim violated, 9 claims
        not selected)``.
        """
        words = (
            f"{WOULD}; results from a lab qualify no release" if self.word == WOULD else self.word
        )
        words += ", over an unverified connection" if self.is_unverified else ""
        found = {
            each.claim: each.found for each in reversed(self.standing)
        }  # the first obstacle of a claim counts, since decisions come first
        found = dict(reversed(found.items())) | {
            each.claim: "waived" for each in self.obstacles if each.claim not in found
        }
        reported = Counter(verdict for claim, verdict in found.items() if claim not in WHOLE)
        counts = [f"{claim} {found[claim]}" for claim in WHOLE if claim in found]
        counts += [
            f"{counted(number, 'claim')} {verdict.lower().replace('_', ' ')}"
            for verdict, number in reported.items()
        ]
        build = self.build if self.build == NO_BUILD else f"Windows {self.build}"
        return f"{self.name} on {build} (mode {self.mode}): {words}" + (
            f" ({', '.join(counts)})" if counts else ""
        )


def judge(
    report: Report,
    required: Sequence[GateSet],
    waivers: Sequence[Waiver],
    claims: Catalog,
    *,
    accept_unverified: bool = False,
) -> tuple[GateResult, ...]:
    """Return one result for each set and Windows build, in this order.

    ``accept_unverified``: accept evidence over a connection that was not verified.
    """
    refused = "" if accept_unverified else report.unverified
    unverified = [_open(RUN, "", "unverified", f"{refused}; {ACCEPTED_BY}")] if refused else []
    return tuple(
        GateResult(
            name=gate_set.name,
            mode=report.mode,
            build=build,
            evidence=report.evidence,
            is_unverified=bool(report.unverified),
            obstacles=tuple(
                sorted(
                    [*unverified, *_obstacles(report, gate_set, build, waivers, claims)],
                    key=lambda obstacle: not obstacle.decided,
                )
            ),
        )
        for gate_set in required
        for build in report.builds or (NO_BUILD,)
    )


def exit_code(results: Sequence[GateResult]) -> int:
    """Return 0 if all results qualify, 1 if a result is not qualified, 6 if a result could not be
    decided (architecture, section 4).
    """
    answers = {result.answer for result in results}
    if "not qualified" in answers:
        return 1
    return 6 if "incomplete" in answers else 0


def unused(waivers: Sequence[Waiver], results: Sequence[GateResult]) -> tuple[Waiver, ...]:
    """Return the waivers that accepted nothing, since the waived result no longer occurs or never
    occurred."""
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
        reason = "schema 1 has neither the builds on which a claim was decided nor whether the run reached its end"
        yield _open(REPORT, "", "too old", reason)
    if report.facts is None:
        yield _open(REPORT, "", "about no cluster", "the report has no facts")
    if report.cut_short:
        yield _open(RUN, "", "cut short", report.cut_short)
    if report.selection:
        yield _open(RUN, "", report.selection.partition(" ")[0], report.selection)
    for demand in required.demands:
        claim = report.claims.get(demand.claim)
        if claim is None:
            yield _open(
                demand.claim, "", "not in the report", "the report's catalog has no such claim"
            )
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
    """Return the facts with only the Windows nodes of this build."""
    nodes = facts.by_os("windows")
    return facts.with_windows(tuple(node.name for node in nodes if build in (node.build, NO_BUILD)))


def _excused(
    report: Report, claim: ClaimOutcome, demand: Demand, build: str, claims: Catalog
) -> set[str]:
    """Return the parts of a claim ("": the whole) that do not apply to this cluster's nodes of a
    build.

    If no required part of the claim would remain, return only the parts that do not apply because
    of a condition that the set names.
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
            yield _obstacle(demand.claim, "", claim.verdict, claim.reason, accepted)
        return
    parts = () if demand.only else tuple(result.part for result in claim.results)
    for part in dict.fromkeys((*demand.parts, *parts)):
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
    """Yield an obstacle for each kind of verdict that is not acceptable. A waived result does not
    hide other results."""
    found = on_build(results, build)
    if not found:
        yield _open(
            claim.id, part, "not decided", f"no decision of the claim is about Windows {build}"
        )
    for finding in unacceptable(claim.kind, found):
        accepted = [
            waiver_for(waivers, claim.id, finding.verdict, part=part, build=place)
            for place in finding.places
        ]
        yield _obstacle(
            claim.id, part, finding.verdict, finding.reason, accepted[0] if all(accepted) else None
        )


def _obstacle(
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
