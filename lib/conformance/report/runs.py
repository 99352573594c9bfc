# SPDX-License-Identifier: Apache-2.0
"""Several reports as a table: claims by runs (releases, lanes, kinds of cluster), worst first."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import Any

from conformance.model.markdown import cell
from conformance.model.verdict import PRECEDENCE
from conformance.report import subject
from conformance.report.markdown import symbol

UNDECIDED = ("INCONCLUSIVE", "NOT_RUN", "NOT_APPLICABLE", "")
"""Words of undecided cells; a change from or to such a cell does not count."""
GOOD = ("CONFIRMED", "NOT_OBSERVED")
_ORDER = tuple(map(str, PRECEDENCE))


@dataclass(frozen=True)
class RunColumn:
    """The column of a run."""

    id: str
    started: str
    name: str
    """The run's labels, or the versions that it tested."""
    cluster: str
    evidence: str
    exit_code: int


@dataclass(frozen=True)
class ClaimCell:
    """The verdict of a claim in a run."""

    verdict: str
    """The verdict; empty: the claim was not selected, or is not in the catalog of that run."""
    flaky: bool = False
    """True if attempts of the run disagree."""
    changed: bool = False
    """True if the verdict differs from the verdict of the previous run on this cluster that decided
    the claim."""


@dataclass(frozen=True)
class ClaimRow:
    """A claim in all runs."""

    id: str
    area: str
    statement: str
    provisional: bool
    """True if no gate requires the claim."""
    state: str
    """The state of the claim: ``failing``, ``flaky``, ``changed``, ``undecided`` or ``holds``. A
    claim is flaky if attempts of a run, or runs of the same versions, disagree."""
    cells: Sequence[ClaimCell]


@dataclass(frozen=True)
class Table:
    """Claims by runs, the oldest run first, the worst claim first."""

    runs: Sequence[RunColumn]
    claims: Sequence[ClaimRow]


STATES = ("failing", "flaky", "changed", "undecided", "holds")
"""The states, in the order of the rows."""


def table(reports: Sequence[Mapping[str, Any]], provisional: AbstractSet[str]) -> Table:
    """Return the table of reports in their JSON form. ``provisional``: ids of provisional
    claims."""
    ordered = sorted(reports, key=lambda plain: str(plain["run"]["started"]))
    known = {claim["id"]: claim for plain in ordered for claim in plain["claims"]}
    columns = list(map(_column, ordered))
    found = [{claim["id"]: claim for claim in plain["claims"]} for plain in ordered]
    rows = [
        _row(claim, [claims.get(ident) for claims in found], columns, ident in provisional)
        for ident, claim in known.items()
    ]
    shown = [row for row in rows if any(each.verdict not in UNDECIDED[1:] for each in row.cells)]
    return Table(columns, sorted(shown, key=_weight))


def _column(plain: Mapping[str, Any]) -> RunColumn:
    run = plain["run"]
    labels = [f"{key} {value}" for key, value in (run.get("labels") or {}).items()]
    versions = subject.versions(plain.get("facts") or {})
    return RunColumn(
        id=str(run["id"]),
        started=str(run["started"]),
        name=", ".join(labels or versions) or "no cluster",
        cluster=subject.cluster_name(run["cluster"]) if run.get("cluster") else "",
        evidence=str(run.get("evidence") or "none"),
        exit_code=int(run.get("exit_code") or 0),
    )


def _row(
    claim: Mapping[str, Any],
    found: Sequence[Mapping[str, Any] | None],
    columns: Sequence[RunColumn],
    provisional: bool,
) -> ClaimRow:
    cells = []
    before: dict[str, str] = {}
    turns: Counter[tuple[str, str]] = Counter()
    for column, each in zip(columns, found, strict=True):
        verdict = str((each or {}).get("verdict") or "")
        changed = verdict not in UNDECIDED and verdict != before.get(column.cluster, verdict)
        cells.append(ClaimCell(verdict, bool((each or {}).get("flaky")), changed))
        turns[column.cluster, column.name] += changed
        if verdict not in UNDECIDED:
            before[column.cluster] = verdict
    is_flaky = any(each.flaky for each in cells) or max(turns.values()) > 1
    state = "flaky" if is_flaky else _state(cells, columns)
    return ClaimRow(claim["id"], claim["area"], claim["statement"], provisional, state, cells)


def _state(cells: Sequence[ClaimCell], columns: Sequence[RunColumn]) -> str:
    """Return the state of a claim by the newest run on each cluster. A claim that failed stays
    ``failing`` until a later run on this cluster decides it otherwise."""
    pairs = [(column.cluster, each.verdict) for column, each in zip(columns, cells, strict=True)]
    if not set(dict(pair for pair in pairs if pair[1] not in UNDECIDED).values()) <= set(GOOD):
        return "failing"
    if "INCONCLUSIVE" in dict(pair for pair in pairs if pair[1] not in UNDECIDED[1:]).values():
        return "undecided"
    return "changed" if any(each.changed for each in cells) else "holds"


def _weight(row: ClaimRow) -> tuple[int, bool, int, str]:
    newest = next((each.verdict for each in reversed(row.cells) if each.verdict), "")
    place = _ORDER.index(newest) if newest in _ORDER else len(_ORDER)
    return STATES.index(row.state), row.provisional, place, row.id


def counts(found: Table) -> str:
    """Return ``2 failing, 1 flaky, 85 hold``."""
    numbers = Counter(row.state for row in found.claims)
    return ", ".join(
        f"{numbers[state]} {'hold in every run' if state == 'holds' else state}"
        for state in STATES
        if numbers[state]
    )


def as_json(found: Table) -> str:
    """Return the table for programs."""
    return json.dumps(asdict(found), indent=1, ensure_ascii=False) + "\n"


def as_markdown(found: Table) -> str:
    """Return the table for a page of Markdown; claims that hold in every run are counted."""
    return "\n".join(_markdown(found)) + "\n"


def _markdown(found: Table) -> Iterator[str]:
    yield from ("| run | started | about | cluster | evidence | exit code |", "|" + " --- |" * 6)
    for number, run in enumerate(found.runs, 1):
        words = (str(number), run.started, run.name, run.cluster, run.evidence, str(run.exit_code))
        yield f"| {' | '.join(map(cell, words))} |"
    yield from ("", f"Claims: {counts(found)}.", "")
    numbers = [str(number) for number in range(1, len(found.runs) + 1)]
    yield f"| claim | state | {' | '.join(numbers)} | statement |"
    yield "|" + " --- |" * (len(numbers) + 3)
    for row in found.claims:
        if row.state == "holds":
            continue
        state = f"{row.state}, provisional" if row.provisional else row.state
        verdicts = " | ".join(map(_cell_text, row.cells))
        yield f"| {cell(row.id)} | {state} | {verdicts} | {cell(row.statement)} |"


def _cell_text(found: ClaimCell) -> str:
    if not found.verdict:
        return ""
    marks = "".join([" **changed**" * found.changed, " flaky" * found.flaky])
    return f"{symbol(found.verdict)} {cell(found.verdict)}{marks}"
