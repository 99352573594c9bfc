"""The gate: does a report show what a named set demands, on each Windows build, and what is in the way?

Three answers: ``qualified``; ``not qualified``, since something is decided and not acceptable; ``incomplete``, since
something is not decided.  What a lab shows qualifies nothing, and is said so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from conformance.catalog import Catalog, NotApplicable, applicability
from conformance.model.claim import ClaimResult
from conformance.model.verdict import ClaimVerdict, precedence
from conformance.qualify.acceptable import UNDECIDED, acceptable
from conformance.qualify.sets import Demand, GateSet
from conformance.qualify.stored import StoredClaim, StoredReport
from conformance.qualify.waivers import Waiver, waiver_for

Answer = Literal["qualified", "not qualified", "incomplete"]
NO_BUILD = "no Windows build"
"""Stands for the build where a cluster has no Windows node whose build is known."""


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """What stands in the way, or was waived."""

    claim: str
    part: str
    verdict: str
    """A claim verdict, ``not selected`` or ``not decided``."""
    reason: str
    waiver: Waiver | None = None
    decided: bool
    """Whether it is a decision about the cluster; else nothing is known."""

    def __str__(self) -> str:
        """``VXLAN-9 (changed) NOT_RUN: it needs --allow-disruptive``."""
        what = f"{self.claim} ({self.part})" if self.part else self.claim
        return str(self.waiver) if self.waiver else f"{what} {self.verdict}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """The answer for one set and one Windows build."""

    name: str
    mode: str
    build: str
    evidence: str
    obstacles: tuple[Obstacle, ...]
    demanded: int
    """Claims that the set demands."""

    @property
    def standing(self) -> tuple[Obstacle, ...]:
        """Those that no waiver accepts."""
        return tuple(one for one in self.obstacles if one.waiver is None)

    @property
    def answer(self) -> Answer:
        """What the report says of it."""
        if any(one.decided for one in self.standing):
            return "not qualified"
        return "incomplete" if self.standing else "qualified"

    @property
    def headline(self) -> str:
        """``core, vxlan, Windows 20348: not qualified (2 in the way, 1 waived)``."""
        words: str = self.answer
        if self.evidence == "lab" and self.answer == "qualified":
            words = "would qualify; a lab qualifies nothing"
        waived = len(self.obstacles) - len(self.standing)
        counts = [f"{len(self.standing)} in the way"] * bool(self.standing) + [f"{waived} waived"] * bool(waived)
        build = self.build if self.build == NO_BUILD else f"Windows {self.build}"
        return f"{self.name}, {self.mode}, {build}: {words}" + (f" ({', '.join(counts)})" if counts else "")


def judge(
    report: StoredReport, required: Sequence[GateSet], waivers: Sequence[Waiver], claims: Catalog
) -> tuple[GateResult, ...]:
    """One result for each set and Windows build, in this order."""
    return tuple(
        GateResult(
            name=one.name,
            mode=report.mode,
            build=build,
            evidence=report.evidence,
            obstacles=tuple(_obstacles(report, one, build, waivers, claims)),
            demanded=len(one.demands),
        )
        for one in required
        for build in report.builds or (NO_BUILD,)
    )


def exit_code(results: Sequence[GateResult]) -> int:
    """0 all qualified, 1 one is not, 6 one could not be decided (architecture, section 4)."""
    answers = {one.answer for one in results}
    if "not qualified" in answers:
        return 1
    return 6 if "incomplete" in answers else 0


def unused(waivers: Sequence[Waiver], results: Sequence[GateResult]) -> tuple[Waiver, ...]:
    """Waivers that accepted nothing: their exception is gone, or never was."""
    used = {id(obstacle.waiver) for one in results for obstacle in one.obstacles if obstacle.waiver}
    return tuple(one for one in waivers if id(one) not in used)


def _obstacles(
    report: StoredReport, required: GateSet, build: str, waivers: Sequence[Waiver], claims: Catalog
) -> Iterator[Obstacle]:
    if report.cut_short:
        yield Obstacle(claim="the run", part="", verdict="cut short", reason=report.cut_short, decided=False)
    for demand in required.demands:
        claim = report.claims.get(demand.claim)
        if claim is None:
            yield _open(demand.claim, "", "not in the report", "its catalog has no such claim")
        elif not _excused(report, demand, claims):
            yield from _of_claim(claim, demand, build, waivers)


def _excused(report: StoredReport, demand: Demand, claims: Catalog) -> bool:
    """Whether the claim is not about this cluster, for a condition that the set names."""
    if report.facts is None or demand.claim not in claims:
        return False
    applies = applicability(claims[demand.claim], report.facts)
    return isinstance(applies, NotApplicable) and applies.key in demand.unless


def _of_claim(claim: StoredClaim, demand: Demand, build: str, waivers: Sequence[Waiver]) -> Iterator[Obstacle]:
    if not claim.results:
        yield _said(claim, "", claim.verdict, claim.reason, _waiver(waivers, claim, claim.verdict, "", build))
        return
    for part in demand.parts or tuple(dict.fromkeys(one.part for one in claim.results)):
        results = [one for one in claim.results if one.part == part]
        if not results:
            yield _open(claim.id, part, "not selected", "no test of this part was in the run")
            continue
        verdict, reason = _on_build(claim, results, build)
        accepted = _waiver(waivers, claim, verdict, part, build)
        if verdict is None or not acceptable(claim.kind, verdict):
            yield _said(claim, part, verdict, reason, accepted)


def _on_build(claim: StoredClaim, results: Sequence[ClaimResult], build: str) -> tuple[ClaimVerdict | None, str]:
    """What a part's tests decided for one Windows build, and the reason; None: they decided nothing about it.

    A decision between Linux nodes, or about the cluster as a whole, is one about every build.
    """
    said: list[tuple[ClaimVerdict, str]] = []
    for result in results:
        said += [(one.verdict, one.reason) for one in result.decisions if not one.about or build in one.about]
        attributed = any(one.verdict is result.verdict for one in result.decisions)
        if not attributed:
            said.append((result.verdict, result.reason))  # what ended the test belongs to no node
    if not said:
        return None, f"no decision of it is about Windows {build}"
    order = precedence(claim.kind)
    return min(said, key=lambda one: order.index(one[0]))


def _waiver(
    waivers: Sequence[Waiver], claim: StoredClaim, verdict: ClaimVerdict | None, part: str, build: str
) -> Waiver | None:
    return waiver_for(waivers, claim.id, verdict, part=part, build=build) if verdict else None


def _said(claim: StoredClaim, part: str, verdict: ClaimVerdict | None, reason: str, waiver: Waiver | None) -> Obstacle:
    if verdict is None:
        return _open(claim.id, part, "not decided" if claim.results else "not selected", reason)
    return Obstacle(
        claim=claim.id,
        part=part,
        verdict=str(verdict),
        reason=reason,
        waiver=waiver,
        decided=verdict not in UNDECIDED and verdict is not ClaimVerdict.NOT_APPLICABLE,
    )


def _open(claim: str, part: str, verdict: str, reason: str) -> Obstacle:
    return Obstacle(claim=claim, part=part, verdict=verdict, reason=reason, decided=False)
