"""The summary at the end of a run, as lines: everything a reader has to know before opening a report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from conformance.catalog import IsolationKind
from conformance.model.claim import ClaimVerdict
from conformance.report import probing
from conformance.report.matrix import render
from conformance.report.outcomes import ClaimOutcome, half, underlay
from conformance.report.run import RunReport
from conformance.report.statistics import lines

Tone = Literal["plain", "good", "warn", "bad"]

TONES: dict[ClaimVerdict, Tone] = {
    ClaimVerdict.CONFIRMED: "good",
    ClaimVerdict.NOT_OBSERVED: "good",
    ClaimVerdict.VIOLATED: "bad",
    ClaimVerdict.INCONCLUSIVE: "bad",
    ClaimVerdict.UNMET: "warn",
    ClaimVerdict.ADVISED: "warn",
    ClaimVerdict.LIFTED: "warn",
    ClaimVerdict.NOT_RUN: "warn",
    ClaimVerdict.NOT_APPLICABLE: "plain",
}
EXIT_MEANINGS = {
    0: "nothing violated",
    1: "a claim is VIOLATED",
    2: "interrupted",
    3: "pytest failed internally",
    4: "options or files that cannot be used",
    5: "nothing selected",
    6: "something is INCONCLUSIVE: the suite or its surroundings broke",
    7: "the environment makes the run impossible, or no Windows node was reached",
}
_TOLD = (
    ClaimVerdict.VIOLATED,
    ClaimVerdict.INCONCLUSIVE,
    ClaimVerdict.UNMET,
    ClaimVerdict.LIFTED,
    ClaimVerdict.ADVISED,
    ClaimVerdict.NOT_RUN,
    ClaimVerdict.NOT_OBSERVED,
    ClaimVerdict.CONFIRMED,
)
_WITH_REASON = frozenset(_TOLD) - {ClaimVerdict.CONFIRMED}


def summary(report: RunReport, where: Path) -> Iterator[tuple[str, Tone]]:
    """Lines with their tone: verdict per decided claim, the matrix, counts, evidence, exit code, place."""
    tested = [outcome for outcome in report.claims if outcome.results]
    for verdict in _TOLD:
        for outcome in tested:
            if outcome.verdict is verdict:
                yield from _claim(outcome, TONES[verdict])
    rows = render(report.matrix)
    if rows:
        yield "", "plain"
        yield from ((row, "plain") for row in rows)
    figures = [*lines(report.statistics), *probing.lines(report.probing)]
    if figures:
        yield "", "plain"
        yield from ((line, "plain") for line in figures)
    yield "", "plain"
    for claim, waiver in report.waived.items():
        yield f"waived: {claim}: {waiver}", "warn"
    for gate in report.gates:
        yield f"gate: {gate.headline}", "good" if gate.answer == "qualified" else "bad"
        yield from ((f"      {line}", "bad") for line in gate.obstacles)
    yield f"claims: {_counts(report)}", "plain"
    if again := report.continues:
        better = sum(1 for before, now in again.again.values() if before != now)
        told = f"{len(again.again)} tests run again, {better} say something else now"
        yield f"continues: run {again.id} of {again.started}; {told}", "plain"
    for note in report.notes:
        yield f"note: {note}", "warn"
    if report.facts:
        yield _evidence(report), "plain"
    meaning = _meaning(report)
    yield f"report: {where}  (exit code {report.exit_code}: {meaning})", "plain" if report.exit_code == 0 else "bad"


def _meaning(report: RunReport) -> str:
    verdicts = {test.verdict for test in report.tests}
    if report.exit_code == 1 and ClaimVerdict.VIOLATED not in verdicts:
        return "what was asked of the run (--require, --fail-on, --baseline, --attest) fails"
    if report.exit_code == 6 and ClaimVerdict.INCONCLUSIVE not in verdicts:
        return "nothing violated; what was asked of the run (--require, --baseline) could not be decided"
    return EXIT_MEANINGS.get(report.exit_code, "")


def _claim(outcome: ClaimOutcome, tone: Tone) -> Iterator[tuple[str, Tone]]:
    first = (outcome.reason.splitlines() or [""])[0].removeprefix(f"{outcome.claim.id}  ")
    text = first if outcome.verdict in _WITH_REASON and first else outcome.claim.statement
    where = f"{outcome.on_builds}: " if outcome.on_builds else ""
    yield f"{outcome.word:12} {outcome.claim.id:9} {where}{text}", tone
    if outcome.missing:
        decided = ", ".join(outcome.decided) or "none"
        yield f"{'':22} decided: {decided}; without verdict: {', '.join(outcome.missing)}", tone
    if (passive := half(outcome.claim, outcome.results)) and passive not in text:
        yield f"{'':22} {passive}", tone
    if subnets := underlay(outcome.results):
        yield f"{'':22} {subnets}", tone
    if outcome.remedy and outcome.verdict in _WITH_REASON and outcome.remedy not in text:
        yield f"{'':22} {outcome.remedy}", tone


def _counts(report: RunReport) -> str:
    untested = sum(
        1
        for outcome in report.claims
        if outcome.verdict is ClaimVerdict.NOT_RUN
        and not outcome.results
        and outcome.claim.isolation.kind is not IsolationKind.MANUAL
    )
    words = ", ".join(f"{count} {word}" for word, count in report.counts.items())
    return f"{words} ({untested} of them have no test yet)" if untested else words


def _evidence(report: RunReport) -> str:
    assert report.facts is not None  # the caller looked
    builds = sorted({node.revision for node in report.facts.by_os("windows") if node.revision})
    windows = f"Windows {', '.join(builds) or 'of unknown build'}"
    if report.facts.evidence == "lab":
        return f"evidence: lab ({windows}, emulated); it shows that the suite works and qualifies no release"
    return f"evidence: field ({windows}, {report.started[:10]})"
