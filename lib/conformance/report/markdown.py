# SPDX-License-Identifier: Apache-2.0
"""A report as Markdown: the summary for the page of a CI job, and the text of an issue.

Both texts contain versions, causes, evidence and commands. Texts of a cluster are not interpreted
as markup.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.model.markdown import cell, fenced
from conformance.report import causes, gate_table, subject, summed_up
from conformance.report.causes import Cause
from conformance.report.commands import shareable

SYMBOLS = {
    "CONFIRMED": "✅",
    "NOT_OBSERVED": "✅",
    "VIOLATED": "❌",
    "INCONCLUSIVE": "❔",
    "qualified": "✅",
    "would qualify": "✅",
    "not qualified": "❌",
    "incomplete": "❔",
}
"""Symbols of verdicts and of gates' answers; all other verdicts and answers have ``⚠️``."""


def issue(cause: Cause, plain: Mapping[str, Any]) -> str:
    """Return the text of an issue about a cause."""
    ids = ", ".join(claim["id"] for claim in cause.claims)
    run = plain["run"]
    facts = {
        "Claims": f"{ids} ({cause.share})",
        "Observed": cause.observed,
        "Layer": cause.layer,
        "First observed": cause.since,
        "Versions": "; ".join(subject.versions(plain.get("facts") or {})),
        "Evidence": f"{run.get('evidence') or 'none'}, run of {run['started']}, "
        f"{subject.suite(plain)}",
    }
    explanation = cause.explanation
    lines = {"path": explanation.get("path", "")} | (explanation.get("lines") or {})
    evidence = [
        explanation.get("headline") or str(cause.claims[0]["reason"]),
        *(f"  {name:10} {text}" for name, text in lines.items() if text),
        *filter(None, [explanation.get("table")]),
    ]
    return "\n".join(
        [
            f"### {cell(cause.text)}",
            "",
            *(f"- **{name}:** {cell(text)}" for name, text in facts.items() if text),
            *(f"- {claim['id']}: {cell(claim['statement'])}" for claim in cause.claims),
            "",
            fenced("\n".join(evidence), "text"),
            "",
            "Run it again:",
            "",
            fenced(cause.again, "sh"),
        ]
    )


def summary(plain: Mapping[str, Any], headline: str, reach: str) -> Iterator[str]:
    """Yield the lines of a report's summary: its headline, causes, gates, and claims to unfold."""
    run = plain["run"]
    yield from (f"# {cell(headline)}", "")
    yield from filter(None, [cell(reach)])
    about = [
        *subject.versions(plain.get("facts") or {}),
        f"evidence {run.get('evidence') or 'none'}",
    ]
    yield from ("", cell(" · ".join(about)), "")
    found = causes.of_report(plain)
    if found:
        yield from ("| | Cause | Claims | First observed |", "| --- | --- | --- | --- |")
        yield from (_row(cause) for cause in found)
        yield ""
    yield from _gates(plain)
    counts = summed_up.counts(plain["claims"])
    yield cell(f"Claims: {', '.join(f'{number} {word}' for word, number in counts.items())}.")
    yield from (f"- note: {cell(note)}" for note in run.get("notes") or ())
    for cause in found:
        yield from ("", "<details><summary>")
        yield from ("", f"{symbol(cause.verdict)} {cell(cause.text)}", "", "</summary>", "")
        yield from (issue(cause, plain), "", "</details>")
    yield from ("", cell(f"Run {run['id']} of {run['started']}: {shareable(run['command'])}"))


def _row(cause: Cause) -> str:
    text = "<br>".join(map(cell, filter(None, [cause.text, cause.layer])))
    ids = cell(", ".join(claim["id"] for claim in cause.claims))
    return f"| {symbol(cause.verdict)} | {text} | {ids} | {cell(cause.since)} |"


def _gates(plain: Mapping[str, Any]) -> Iterator[str]:
    table = gate_table.of_report(plain)
    if not table.rows:
        return
    yield _line(["Set", *map(cell, table.builds)])
    yield _line(["---", *("---" for _ in table.builds)])
    for row in table.rows:
        name = f"**{cell(row.name)}** (required)" if row.required else cell(row.name)
        answers = (row.answers.get(build, "") for build in table.builds)
        yield _line(
            [name, *(f"{symbol(answer)} {cell(answer)}" if answer else "" for answer in answers)]
        )
    yield from ("", f"{gate_table.LAB}\n" if plain["run"].get("evidence") == "lab" else "")


def symbol(word: str) -> str:
    """Return the symbol of a verdict, or of a gate's answer."""
    return SYMBOLS.get(word, "⚠️")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
