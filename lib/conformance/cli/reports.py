# SPDX-License-Identifier: Apache-2.0
"""Commands that read reports: diff, show, matrix, pack, gate."""

import argparse
import datetime
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance import product
from conformance.catalog import catalog
from conformance.errors import UsageProblem
from conformance.printing import line, say
from conformance.qualify import gate, waivers
from conformance.qualify.compare import as_json, as_markdown, as_text, compare
from conformance.qualify.sets import sets, suite_parts
from conformance.qualify.stored import Report, read, reports_in
from conformance.report import formats, markdown, page, runs, summed_up, terminal
from conformance.report.pack import home, pack
from conformance.report.page import answer

MATRIX_FORMS = {"markdown": runs.as_markdown, "json": runs.as_json}
FORMS = {"text": as_text, "json": as_json, "markdown": as_markdown}


def diff(options: argparse.Namespace) -> int:
    """Print the changes from one report to another; return the exit code."""
    found = compare(read(options.old), read(options.new))
    print(FORMS[options.format](found, options.verbose), end="")
    return found.exit_code


def show(options: argparse.Namespace) -> None:
    """Print the summary of a report, or write its page."""
    report = read(options.report)
    if options.html:
        page.write(
            report.plain, options.html, folder=options.report if options.report.is_dir() else None
        )
    elif options.format == "json":
        print(json.dumps(formats.summary(report.plain), indent=1, ensure_ascii=False))
    else:
        lines = _summary(report, options.verbose)
        if options.format == "markdown":
            first, _ = answer.headline(report.plain)
            lines = list(markdown.summary(report.plain, first, answer.reach(report.plain)))
        print("\n".join(lines))


def matrix(options: argparse.Namespace) -> None:
    """Print the table of claims by runs, or write it as a page."""
    files = [file for path in options.reports for file in reports_in(path)]
    parts = suite_parts().items()
    found = runs.table(
        [read(file).plain for file in files],
        {claim for claim, known in parts if all(part.provisional for part in known)},
    )
    if options.html:
        page.write_runs(found, options.html)
    else:
        print(MATRIX_FORMS[options.format](found), end="")


def pack_run(options: argparse.Namespace) -> None:
    """Write one archive of a run's folder."""
    run = options.run_folder
    if not (run / "conformance.json").is_file():
        raise UsageProblem(f"{run} is not the folder of a run (it has no conformance.json)")
    archive = options.to or Path(f"{run.resolve().name}.zip")
    inside, left_out = pack(run, archive, (home(), Path.cwd(), product.root(), Path(sys.prefix)))
    print(
        f"{archive}: {len(inside)} files, {archive.stat().st_size / 1e6:.1f} MB; read it before you publish it"
    )
    if left_out:
        print(f"left out: {', '.join(left_out)}")


def _summary(report: Report, figures: bool) -> list[str]:
    """Return a line with the run's name and command, and the lines of its summary."""
    run = report.run
    lines = (
        text for text, _ in terminal.summary(report.plain, Path(report.where), figures=figures)
    )
    return [line(f"run {run['id']} of {run['started']}: {run['command']}"), *lines]


def judge(options: argparse.Namespace) -> int:
    """Print whether a report qualifies for sets of claims; return the exit code."""
    today = datetime.datetime.now(datetime.UTC).date()
    accepted = waivers.load(options.waivers, catalog(), today) if options.waivers else ()
    report = read(options.report)
    results = gate.judge(
        report,
        sets().named(",".join(options.require)),
        accepted,
        catalog(),
        accept_unverified=options.accept_unverified_tls,
    )
    gates = [
        {
            "name": gate_result.name,
            "answer": gate_result.answer,
            "headline": gate_result.headline,
            "waived": [],
            "obstacles": list(map(str, gate_result.obstacles)),
        }
        for gate_result in results
    ]
    plain = {**report.plain, "gates": gates}
    _print_gates(plain, [str(waiver) for waiver in gate.unused(accepted, results)], options.format)
    return gate.exit_code(results)


def _print_gates(plain: Mapping[str, Any], unused: Sequence[str], form: str) -> None:
    if form == "json":
        print(json.dumps(formats.gates(plain, unused), indent=1, ensure_ascii=False))
        return
    if form == "markdown":
        say(*formats.gates_as_markdown(plain, unused))
        return
    for each in summed_up.gates(plain):
        say(*each["headlines"], *(f"  {obstacle}" for obstacle in each["obstacles"]))
    if beside := summed_up.beside_gates(plain):
        say(f"{terminal.BESIDE}: {', '.join(beside)}")
    say(*(f"waiver not used: {waiver}" for waiver in unused))
