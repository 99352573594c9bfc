# SPDX-License-Identifier: Apache-2.0
"""One report for several runs on the same cluster: runs of different areas, nodes or days, or the
parts of a run (``--shard``).

Tests are merged as in a rerun: the worse decision counts. The verdicts of claims are computed
again.
"""

import itertools
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from conformance.catalog import catalog, digest
from conformance.errors import UsageProblem
from conformance.model.claim import ClaimVerdict
from conformance.model.codec import from_plain
from conformance.model.facts import Fact, Facts
from conformance.model.images import together as images_together
from conformance.model.installed import Installed
from conformance.printing import say
from conformance.qualify import again, outcomes
from conformance.qualify.sets import suite_parts
from conformance.qualify.stored import Report, read
from conformance.report import junit, page, terminal
from conformance.report.probing import ProbingCost, joined
from conformance.report.run import SHARD, Merged, RunReport, write_json
from conformance.verdicts.claims import ClaimOutcome, TestOutcome, claim_outcomes, exit_code

T = TypeVar("T")
ATTACHMENTS = "attachments"


def merge(given: Sequence[Path], folder: Path) -> int:
    """Write the merged report into a new folder. Return the exit code that one run would have.

    Raise UsageProblem, before anything is written, if these reports are not of one cluster.
    """
    reports = sorted(map(read, given), key=lambda report: str(report.run["started"]))
    newest = reports[-1]
    if problems := list(itertools.chain.from_iterable(_differences(newest, r) for r in reports)):
        raise UsageProblem(
            f"not merged: {'; '.join(dict.fromkeys(problems))}; calico-conformance diff compares "
            "reports of different clusters and versions"
        )
    ids = [str(report.run["id"]) for report in reports]
    if doubled := {ident for ident in ids if ids.count(ident) > 1}:
        raise UsageProblem(f"not merged: run {', '.join(sorted(doubled))} is named twice")
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise UsageProblem(f"--to {folder}: the folder exists already; name a new folder") from None
    kept = [_attachments(report, folder) for report in reports]
    attachments = {
        test: [file for files in kept for file in files.get(test, ())]
        for test in itertools.chain(*kept)
    }
    merged = _merged(reports, attachments)
    write_json(merged, folder / "conformance.json")
    page.write(merged.plain, folder / "report.html", folder=folder)
    junit.write_claims(merged, folder / "junit-claims.xml")
    say(*(line for line, _ in terminal.summary(merged.plain, folder, figures=False)))
    return merged.exit_code


def _differences(newest: Report, report: Report) -> Iterator[str]:
    """Yield the reasons why two reports are not of one cluster in one state. Yield nothing if they
    are."""
    theirs = str(report.suite.get("catalog") or "")
    if report.schema == "1" or not again.uid(report) or report.facts is None:
        yield f"{report.where} does not name its cluster"
        return
    if theirs != digest():
        yield (
            f"{report.where} was judged by another catalog ({theirs[:12]}; this suite has "
            f"{digest()[:12]}); "
            "use the suite of that report"
        )
    if report is newest or newest.facts is None:
        return
    installed = from_plain(Installed, newest.installed)
    yield from again.differences(
        report,
        newest.facts,
        installed,
        now=f"in {newest.where}",
        then=f"in {report.where}",
    )
    for node in report.facts.nodes:
        then = report.facts.calico_on(node.name).value
        now = newest.facts.calico_on(node.name).value
        if then and now and then != now:
            yield f"Calico on node {node.name}: {now} in {newest.where}, {then} in {report.where}"


def _merged(reports: Sequence[Report], attachments: Mapping[str, Sequence[str]]) -> RunReport:
    newest = reports[-1]
    facts = _facts(reports)
    tests: tuple[TestOutcome, ...] = ()
    for report in reports:
        tests = outcomes.together(tests, outcomes.tests(report))
    selection = _selection(reports)
    return RunReport(
        run_id="+".join(str(report.run["id"]) for report in reports),
        started=str(reports[0].run["started"]),
        seconds=sum(float(report.run["seconds"]) for report in reports),
        exit_code=exit_code(tests, 0),
        command=f"calico-conformance merge {' '.join(report.where for report in reports)}",
        cluster=newest.run["cluster"],
        facts=facts,
        tests=tests,
        claims=_claims(facts, tests, reports),
        labels=_all(reports, "labels", of_run=True),
        suite=newest.suite,
        timings=_all(reports, "timings"),
        cut_short=_cut_short(reports, tests),
        selection=selection,
        merged=tuple(
            Merged(**{name: str(report.run[name]) for name in ("id", "started", "command")})
            for report in reports
        ),
        dates=_dates(reports),
        attested=_all(reports, "attested"),
        installed=from_plain(Installed, newest.installed),
        covered=_all(reports, "covered"),
        attachments=attachments,
        unverified=next((report.unverified for report in reports if report.unverified), ""),
        notes=_notes(reports, selection),
        images=images_together(image for report in reports for image in outcomes.images(report)),
        probing=joined(from_plain(ProbingCost, report.plain["probing"]) for report in reports),
    )


def _claims(
    facts: Facts, tests: Sequence[TestOutcome], reports: Sequence[Report]
) -> tuple[ClaimOutcome, ...]:
    """Return the claims as a single run would have them.

    A claim without results counts as complete only if every test was in some run.
    """
    decided = {result.claim for test in tests for result in test.results}
    found = claim_outcomes(catalog(), facts, tests, whole=suite_parts().keys() <= decided)
    for report in reports:
        found = outcomes.answered(found, report)
    return found


def _selection(reports: Sequence[Report]) -> str:
    """Return which parts of a run are missing, and what quick runs selected. Return an empty string
    if no part is missing and no run was quick."""
    parts: dict[str, set[str]] = {}
    others = []
    for report in reports:
        words = report.selection.split(" ", 2)
        if report.selection.startswith(SHARD):
            number, _, of = words[1].partition("/")
            parts.setdefault(of, set()).add(number)
        elif report.selection:
            others.append(report.selection)
    for of, there in parts.items():
        missing = [str(n) for n in range(1, int(of) + 1) if str(n) not in there]
        others += [f"{SHARD}{number}/{of} is missing" for number in missing]
    return "; ".join(dict.fromkeys(others))


def _cut_short(reports: Sequence[Report], tests: Sequence[TestOutcome]) -> str:
    """Return why a run ended early, unless other runs have made up for it."""
    left = {test.test for test in tests if not test.ran or test.verdict is ClaimVerdict.NOT_RUN}
    for report in reports:
        theirs = {
            str(test["test"])
            for test in report.plain["tests"]
            if not test.get("ran", True) or test["verdict"] == ClaimVerdict.NOT_RUN
        }
        if report.cut_short and (theirs & left or not theirs):
            return report.cut_short
    return ""


def _notes(reports: Sequence[Report], selection: str) -> tuple[str, ...]:
    """Return the notes of all runs, each once. Notes about the selection of a single run are left
    out."""
    chosen = {report.selection for report in reports}
    notes = [str(note) for report in reports for note in report.run["notes"] if note not in chosen]
    merged = ", ".join(f"{report.run['id']} of {report.run['started']}" for report in reports)
    return tuple(filter(None, dict.fromkeys([f"merged of runs {merged}", selection, *notes])))


def _dates(reports: Sequence[Report]) -> dict[str, str]:
    """Map each claim to the dates of its evidence in all runs."""
    found: dict[str, set[str]] = {}
    for report in reports:
        for claim, date in outcomes.dates(report).items():
            found.setdefault(claim, set()).update(date.split(", "))
    return {claim: ", ".join(sorted(dates)) for claim, dates in found.items()}


def _all(reports: Sequence[Report], name: str, *, of_run: bool = False) -> dict[str, str]:
    """Return the entries of a named part of the reports. If reports differ in an entry, the newest
    report counts."""
    found: dict[str, str] = {}
    for report in reports:
        found |= (report.run if of_run else report.plain).get(name) or {}
    return found


def _facts(reports: Sequence[Report]) -> Facts:
    """Return the facts of the newest report. A fact that is unknown in this report is taken from an
    earlier report that knows it."""
    found: Facts | None = None
    for facts in (report.facts for report in reports if report.facts):
        if found is None:
            found = facts
            continue
        earlier = {node.name: node for node in found.nodes}
        known = {name: fact for name, fact in found.calico_on_nodes.items() if fact.known}
        nodes = tuple(_filled(node, earlier.get(node.name, node)) for node in facts.nodes)
        on_nodes = {**known, **{n: f for n, f in facts.calico_on_nodes.items() if f.known}}
        found = replace(
            _filled(facts, found),
            nodes=nodes,
            calico_on_nodes={**facts.calico_on_nodes, **on_nodes},
        )
    assert found is not None  # a report without facts cannot be merged
    return found


def _filled(newer: T, older: T) -> T:
    """Return facts in which values that are not known are taken from older facts."""
    changed: dict[str, Any] = {}
    for item in fields(newer):  # type: ignore[arg-type]
        fact = getattr(newer, item.name)
        before = getattr(older, item.name)
        if isinstance(before, Fact) and before.known and not (fact and fact.known):
            changed[item.name] = before
    return replace(newer, **changed)  # type: ignore[type-var]


def _attachments(report: Report, folder: Path) -> dict[str, list[str]]:
    """Copy the files that the tests of a run have left. Return the files of each test, by their
    paths in the merged report's folder."""
    where = Path(report.where).parent
    name = str(report.run["id"])
    if (where / ATTACHMENTS).is_dir():
        shutil.copytree(where / ATTACHMENTS, folder / name / ATTACHMENTS)
    return {
        str(test["test"]): [f"{name}/{file}" for file in test["attachments"]]
        for test in report.plain["tests"]
        if test.get("attachments")
    }
