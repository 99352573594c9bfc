"""The summary of a report for a page in Markdown, such as a CI system's: the answer first, then what fell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from conformance.report import summed_up
from conformance.report.page import headline


def lines(plain: Mapping[str, Any]) -> Iterator[str]:
    """Headline, gates, counts, causes, and a row for each claim that is not as it is to be."""
    run = plain["run"]
    yield f"# {_safe(headline(plain)[0])}"
    yield ""
    yield f"Run {run['id']} of {run['started']}, evidence {run['evidence'] or 'none'}, exit code {run['exit_code']}."
    yield from ("", *(f"- {_safe(gate['headline'])}" for gate in plain.get("gates") or ()))
    yield from ("", ", ".join(f"{count} {word}" for word, count in summed_up.counts(plain["claims"]).items()))
    yield from (
        "", *(f"- **{_safe(cause)}**: {', '.join(claim['id'] for claim in claims)}"
              for cause, claims in summed_up.causes(plain).items())
    )  # fmt: skip
    told = [claim for claim in plain["claims"] if claim["verdict"] in (*summed_up.FALLEN, "LIFTED", "ADVISED")]
    if told:
        yield from ("", "| claim | verdict | |", "| --- | --- | --- |")
    for claim in told:
        first = claim["reason"].partition("\n")[0].removeprefix(f"{claim['id']}: ").removeprefix(f"{claim['id']}  ")
        yield f"| {claim['id']} | {claim['verdict']} | {_safe(first)} |"


def _safe(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
