# SPDX-License-Identifier: Apache-2.0
"""The contents of a report, and its JSON form."""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from conformance import printing
from conformance.catalog.known_issues import KnownIssue
from conformance.model import SCHEMA_VERSION
from conformance.model.claim import ClaimVerdict
from conformance.model.codec import to_plain
from conformance.model.explanation import Explanation
from conformance.model.facts import Facts
from conformance.model.images import RanImage
from conformance.model.installed import Installed
from conformance.report import summed_up
from conformance.report.matrix import Matrix, direction_matrix
from conformance.report.probing import ProbingCost, cost
from conformance.report.statistics import Statistics, statistics
from conformance.verdicts.claims import ClaimOutcome, TestOutcome, half


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A gate's answer for one set and one Windows build."""

    name: str
    build: str
    answer: str
    """The gate's answer: ``qualified``, ``would qualify`` (a lab's evidence), ``not qualified`` or
    ``incomplete``."""
    headline: str
    obstacles: tuple[str, ...]
    """The obstacles, one line for each."""
    waived: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SetAnswer:
    """The answer for one set and one Windows build, whether the set is required or not."""

    name: str
    build: str
    answer: str
    """The answer, with the words of a gate."""
    headline: str


@dataclass(frozen=True, kw_only=True)
class Continued:
    """An earlier run, a part of which was run again."""

    id: str
    started: str
    command: str
    again: Mapping[str, tuple[str, str]]
    """The earlier and the present verdict of each test. The verdicts elsewhere in the report are
    the valid ones."""


SHARD = "part "
"""The beginning of the text about the selection of a part of a run; the number of the part follows:
``1/3``."""


@dataclass(frozen=True, kw_only=True)
class Merged:
    """A run that a merged report includes."""

    id: str
    started: str
    command: str


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """A run, as the source of all outputs."""

    run_id: str
    started: str
    """The start of the run, in UTC, RFC 3339."""
    seconds: float
    exit_code: int
    command: str
    cluster: Mapping[str, str]
    """``how`` and ``why`` the cluster was chosen, and its ``label``."""
    facts: Facts | None
    tests: tuple[TestOutcome, ...]
    claims: tuple[ClaimOutcome, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    """The user's labels of the run (``--label``), such as the release candidate that was tested or
    the person who ran it."""
    suite: Mapping[str, str] = field(default_factory=dict)
    """``version`` and ``commit`` of the suite, ``catalog`` (its digest)."""
    timings: Mapping[str, str] = field(default_factory=dict)
    """Timings that differ from the packaged timings: ``windows.hold`` to ``2 s instead of 5 s``."""
    cut_short: str = ""
    """The reason why the run ended early; empty if it did not."""
    selection: str = ""
    """The selection of a quick run or of a part of a run; such a run qualifies nothing. Empty for
    any other run."""
    continues: Continued | None = None
    """The earlier run whose verdicts this report includes."""
    merged: tuple[Merged, ...] = ()
    """The runs of a merged report, the oldest first; empty: the report is of a single run."""
    exit_cause: str = ""
    """The option that determined the exit code, and its cause; empty: the tests alone determined
    it."""
    gates: tuple[Gate, ...] = ()
    """The results of ``--require``, one for each set and Windows build."""
    sets: tuple[SetAnswer, ...] = ()
    """The answers for all sets and Windows builds; they do not affect the exit code."""
    waived: Mapping[str, str] = field(default_factory=dict)
    """The waiver that accepts the verdict of each waived claim."""
    dates: Mapping[str, str] = field(default_factory=dict)
    """The date of each claim's evidence in the earlier run, if the report includes verdicts of this
    run."""
    attested: Mapping[str, str] = field(default_factory=dict)
    """The attestation that gives the verdict of each attested claim."""
    installed: Installed = field(default_factory=Installed)
    """The cluster and the versions that ran on it."""
    covered: Mapping[str, str] = field(default_factory=dict)
    """The reason why each covered node is covered; the run decides nothing about other nodes."""
    attachments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The files that each test left, below the run's folder."""
    unverified: str = ""
    """The reason why the API server's answers may have come from another party; empty: they
    cannot."""
    notes: tuple[str, ...] = ()
    """Lines that every reader should see: assumptions, a Windows selection that reached no Windows
    node ..."""
    images: tuple[RanImage, ...] = ()
    """The images of the suite's pods that ran, as the kubelets report them."""
    probing: ProbingCost = field(default_factory=lambda: cost(()))

    @functools.cached_property
    def plain(self) -> dict[str, Any]:
        """Return the report in its JSON form, made once; no text in it can control a terminal."""
        found: dict[str, Any] = printing.within(to_json(self), printing.plain)
        return found

    @property
    def evidence(self) -> str:
        """Return ``lab`` or ``field``; empty if no cluster was read."""
        return self.facts.evidence if self.facts else ""

    @property
    def matrix(self) -> Matrix:
        """Return the matrix of all results."""
        return direction_matrix([result for test in self.tests for result in test.results])

    @property
    def statistics(self) -> Statistics:
        """Return the statistics of all tests."""
        return statistics(test.figures for test in self.tests)

    def known_of(self, test: TestOutcome) -> list[str]:
        """Return the known issues that may explain a VIOLATED test, one line for each."""
        guilty = {
            result.claim for result in test.results if result.verdict is ClaimVerdict.VIOLATED
        }
        return list(
            dict.fromkeys(
                str(issue)
                for claim in self.claims
                if claim.claim.id in guilty
                for issue in claim.known
            )
        )

    def waiver_of(self, test: TestOutcome) -> str:
        """Return the waiver of a VIOLATED test; empty if the test is not VIOLATED, or if the
        waivers do not cover all its violated claims.
        """
        guilty = [
            result.claim for result in test.results if result.verdict is ClaimVerdict.VIOLATED
        ]
        if test.verdict is not ClaimVerdict.VIOLATED or not all(
            claim in self.waived for claim in guilty
        ):
            return ""
        return "; ".join(dict.fromkeys(self.waived[claim] for claim in guilty))


def _hosts(facts: Facts | None) -> dict[str, dict[str, str]]:
    windows = facts.by_os("windows") if facts else ()
    by_node = {
        node.name: {"KB": node.update.value or "", **(node.differences.value or {})}
        for node in windows
    }
    return {
        name: {what: value for what, value in fact.items() if value}
        for name, fact in by_node.items()
        if any(fact.values())
    }


def to_json(report: RunReport) -> dict[str, Any]:
    """Return the report as docs/schema/conformance.schema.json describes it."""
    claims = [_claim(outcome, report) for outcome in report.claims]
    return {
        "schema_version": SCHEMA_VERSION,
        "run": {
            "id": report.run_id,
            "started": report.started,
            "seconds": round(report.seconds, 3),
            "exit_code": report.exit_code,
            **({"exit_cause": report.exit_cause} if report.exit_cause else {}),
            "command": report.command,
            "evidence": report.evidence or None,
            "labels": dict(report.labels),
            "cluster": dict(report.cluster),
            **({"unverified": report.unverified} if report.unverified else {}),
            "notes": list(report.notes),
            "cut_short": report.cut_short or None,
            **({"selection": report.selection} if report.selection else {}),
            "continues": to_plain(report.continues),
            **({"merged": to_plain(report.merged)} if report.merged else {}),
        },
        "suite": dict(report.suite),
        "timings": dict(report.timings),
        "gates": to_plain(report.gates),
        "sets": to_plain(report.sets),
        "waived": dict(report.waived),
        "attested": dict(report.attested),
        "facts": to_plain(report.facts),
        "installed": to_plain(replace(report.installed, hosts=_hosts(report.facts))),
        "covered": dict(report.covered),
        "counts": summed_up.counts(claims),
        "matrix": {
            path: {direction: str(verdict) for direction, verdict in row.items()}
            for path, row in report.matrix.items()
        },
        "statistics": to_plain(report.statistics),
        "images": [to_plain(image) | {"digest": image.digest or None} for image in report.images],
        "probing": to_plain(report.probing),
        "claims": claims,
        "tests": [
            {**_test(test), "attachments": list(report.attachments.get(test.test, ()))}
            for test in report.tests
        ],
    }


def write_json(report: RunReport, path: Path) -> None:
    """Write ``conformance.json``."""
    path.write_text(json.dumps(report.plain, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _claim(outcome: ClaimOutcome, report: RunReport) -> dict[str, Any]:
    claim = outcome.claim
    return {
        "id": claim.id,
        "area": claim.area,
        "statement": claim.statement,
        "holds": claim.holds,
        "fails": claim.fails,
        "kind": str(claim.kind),
        "modality": str(claim.modality),
        "sources": [{"title": str(source), "url": source.url} for source in claim.sources],
        "verdict": str(outcome.verdict) if outcome.verdict else None,
        "reason": outcome.reason,
        "remedy": outcome.remedy,
        "applies": str(outcome.applies) if outcome.applies else "",
        "decided_parts": list(outcome.decided),
        "missing_parts": list(outcome.missing),
        "inapplicable_parts": outcome.inapplicable_parts,
        "builds": {build: str(verdict) for build, verdict in outcome.builds.items()},
        **({"share": outcome.share} if outcome.share else {}),
        "opens": outcome.opens,
        "danger": claim.danger if outcome.verdict is ClaimVerdict.CONFIRMED else "",
        "known_issues": [known_issue(issue) for issue in outcome.known],
        "half": half(claim, outcome.results),
        "evidence": _evidence(outcome, report),
        "seconds": round(outcome.seconds, 3),
        "flaky": outcome.flaky,
        "results": [to_plain(result) for result in outcome.results],
    }


def known_issue(issue: KnownIssue) -> dict[str, str]:
    """Return a known issue in the reports' form; its field ``text`` has the whole issue in one
    line."""
    words = ("name", "since", "effect", "what", "workaround", "heals", "source")
    return {"text": str(issue), **{name: str(getattr(issue, name)) for name in words}}


def _evidence(outcome: ClaimOutcome, report: RunReport) -> dict[str, Any] | None:
    """Return the evidence of a verdict; None if there is none."""
    if outcome.verdict in (None, ClaimVerdict.NOT_RUN):
        return None
    date = _date(outcome, report)
    if answer := report.attested.get(outcome.claim.id, "") if not outcome.results else "":
        return {"kind": "attested", "date": date, "windows": [], "by": answer}
    nodes = {name for decision in outcome.decisions for name in (decision.source, decision.target)}
    windows = report.facts.by_os("windows") if report.facts else ()
    builds = {node.revision for node in windows if node.revision and node.name in nodes}
    return {"kind": report.evidence or "none", "date": date, "windows": sorted(builds), "by": ""}


def _date(outcome: ClaimOutcome, report: RunReport) -> str:
    """Return the date of a verdict: the day of the run, of the earlier run that it continues, or
    both."""
    again = report.continues.again if report.continues else {}
    earlier = report.dates.get(outcome.claim.id, "")
    days = set(earlier.split(", ")) if earlier else set()
    if not earlier or any(result.test in again for result in outcome.results):
        days.add(report.started[:10])
    return ", ".join(sorted(days))


def _test(test: TestOutcome) -> dict[str, Any]:
    return {
        "test": test.test,
        "verdict": str(test.verdict),
        "reason": test.reason,
        "remedy": test.remedy,
        "claims": list(dict.fromkeys(result.claim for result in test.results)),
        "started": test.started,
        "seconds": round(test.seconds, 3),
        "waited": round(test.waited, 3),
        "exclusive": test.exclusive,
        "attempts": list(test.attempts),
        "flaky": test.flaky,
        "worker": test.worker,
        "ran": test.ran,
        "figures": to_plain(test.figures),
        "explanation": _explanation(test.explanation),
        "cause": test.cause,
    }


def _explanation(found: Explanation | None) -> dict[str, Any] | None:
    """Return an explanation with its first line, so that readers of the report need not assemble
    this line."""
    return (
        {"headline": found.headline, **to_plain(found), "seconds": round(found.seconds, 3)}
        if found
        else None
    )
