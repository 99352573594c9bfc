# SPDX-License-Identifier: Apache-2.0
"""The answer as JSON, Markdown and HTML. In HTML the matrix is a picture.

All texts from objects pass the suite's text filter and are escaped for the format.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from conformance.offline import compare
from conformance.offline.summary import (
    PARTLY,
    WORDS,
    Results,
    Summary,
    explained,
    letters_of,
    named,
    some,
    word,
)
from conformance.printing import plain, single, within

FEW = 3
MOST = 60
"""The maximum number of groups in the picture, and in Markdown's table."""
CELL = 14
_GREEN = "#2a9d5c"
_RED = "#c0392b"
_AMBER = "#e0a020"
_OTHER = "#8888aa"
COLOURS = {"open": _GREEN, "closed": _RED, PARTLY: _AMBER}
CHANGED = {"opens": _GREEN, "closes": _RED, "opens and closes": _AMBER}
_STYLE = (
    "body{font:14px sans-serif;margin:2em;max-width:70em}td,th{padding:2px 8px;text-align:left;"
    "border-bottom:1px solid #ddd;vertical-align:top}svg text{font:10px sans-serif}"
)


def as_plain(summary: Summary) -> dict[str, Any]:
    """Return the whole answer as plain data.

    ``matrix``: for each group of sources and each group of destinations, the index of their answers
    in ``answers``; null if there is no answer.
    """
    places: dict[Results, int] = {}
    cells = {
        place: places.setdefault(cell.results, len(places)) for place, cell in summary.cells.items()
    }
    every = range(len(summary.groups))
    return {
        "columns": _columns(summary),
        "summary": list(summary.headlines()),
        "groups": [
            {"group": summary.of(group), "ends": [[end.name, end.os] for end in group.ends]}
            for group in summary.groups
        ],
        "answers": [
            [
                {
                    "at": where,
                    "verdicts": [WORDS[verdict] for verdict in answer.verdicts],
                    **({"because": explained(answer)} if answer.differences else {}),
                }
                for where, answer in results.rows
            ]
            for results in places
        ],
        "matrix": [[cells.get((row, column)) for column in every] for row in every],
        "notes": list(summary.notes(10**9)),
    }


def _columns(summary: Summary) -> list[str]:
    return [column.name for column in summary.reach.columns]


def as_json(value: Any) -> str:
    """Return plain data as JSON."""
    return json.dumps(within(value, plain), ensure_ascii=False) + "\n"


def _cell_rows(summary: Summary) -> Iterator[Sequence[str]]:
    """Yield rows of the table: a pair of groups, a word for each column, and explanations if a word
    is not enough."""
    columns = range(len(summary.reach.columns))
    rows = {
        results: [
            (
                where,
                *(word([answer], column) for column in columns),
                " / ".join(line for said in explained(answer) for line in said),
            )
            for where, answer in results.rows
        ]
        for results in summary.alike
        if results.differs or results.word == PARTLY
    }
    for cell in summary.cells.values():
        pair = f"{summary.of(cell.source)} to {summary.of(cell.destination)}"
        found = rows.get(cell.results, ())
        yield from ((f"{pair}, {where}", *others) for where, *others in found)


def _groups(summary: Summary) -> Iterator[tuple[str, str]]:
    yield from (
        (summary.of(group), some([named(end) for end in group.ends], FEW))
        for group in summary.groups
    )


def as_markdown(summary: Summary) -> str:
    """Return the answer as Markdown."""
    lines = [f"- {_marked(line)}" for line in summary.headlines()]
    lines += _table(("group", "pods that every policy treats alike"), _groups(summary))
    shown = summary.groups[:MOST]
    lines += ["", "| from \\ to | " + " | ".join(map(summary.of, shown)) + " |"]
    lines.append("| --- |" + " --- |" * len(shown))
    for row, group in enumerate(shown):
        cells = [summary.cells.get((row, place)) for place in range(len(shown))]
        words = (
            "" if cell is None else cell.results.word + " \\*" * cell.results.differs
            for cell in cells
        )
        lines.append(f"| {summary.of(group)} | {' | '.join(words)} |")
    lines += _table(("path", *_columns(summary), "why"), _cell_rows(summary))
    lines += ["", *(f"- {_marked(note)}" for note in summary.notes(FEW))]
    return "\n".join(lines) + "\n"


def _table(heads: Sequence[str], listed: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a Markdown table; yield nothing if it has no row. A line counts rows that are left
    out."""
    found = list(listed)
    if found:
        yield from ("", f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|")
        yield from (f"| {' | '.join(map(_marked, one))} |" for one in found[:MOST])
    if len(found) > MOST:
        yield f"\n{len(found) - MOST} more rows: see the JSON"


def _marked(text: str) -> str:
    return (
        escape(single(text), quote=False)
        .replace("\\", "\\\\")
        .replace("|", "\\|")
        .replace("`", "\\`")
        .replace("[", "\\[")
    )


def as_html(summary: Summary) -> str:
    """Return the answer as a page that needs no network."""
    colours = {
        place: (COLOURS.get(cell.results.word, _OTHER), cell.results.word, cell.results.differs)
        for place, cell in summary.cells.items()
    }
    parts = [*_begun(summary.headlines())]
    parts += _picture([summary.of(group) for group in summary.groups], colours, COLOURS)
    parts.append("; a frame marks a result that differs in a column")
    parts += _rows(("group", "pods that every policy treats alike"), _groups(summary))
    parts += _rows(("path", *_columns(summary), "why"), _cell_rows(summary))
    parts += [f"<p>{_shown(note)}" for note in summary.notes(FEW)]
    return "\n".join(parts) + "\n"


_HEADS = ("change", "at", "from", "to", "before", "after", "by")


def _changes(found: compare.Comparison) -> Iterator[Sequence[str]]:
    for one in found.changes:
        ends = (some([named(end) for end in each], FEW) for each in (one.sources, one.destinations))
        yield one.kind, one.where, *ends, one.before, one.after, one.because


def diff_markdown(found: compare.Comparison) -> str:
    """Return the changes as Markdown."""
    lines = [f"- {_marked(line)}" for line in compare.headlines(found, FEW)]
    return "\n".join([*lines, *_table(_HEADS, _changes(found))]) + "\n"


def diff_html(found: compare.Comparison) -> str:
    """Return the changes as a page, whose picture shows the groups with changes."""
    groups = sorted({place for pair in found.kinds for place in pair})
    letters = {place: letters_of(number) for number, place in enumerate(groups)}
    texts = {pair: " and ".join(sorted(kinds, reverse=True)) for pair, kinds in found.kinds.items()}
    colours = {
        (groups.index(row), groups.index(column)): (CHANGED.get(text, _OTHER), text, False)
        for (row, column), text in texts.items()
    }
    named_groups = (
        (letter, some([named(end) for end in found.groups[place]], FEW))
        for place, letter in letters.items()
    )
    parts = [*_begun(compare.headlines(found, FEW))]
    parts += _picture(list(letters.values()), colours, CHANGED)
    parts += _rows(("group", "pods that all policies treat alike"), named_groups)
    parts += _rows(_HEADS, _changes(found))
    return "\n".join(parts) + "\n"


def _begun(headlines: Iterable[str]) -> Iterator[str]:
    first, *others = headlines
    yield "<!doctype html><html lang=en><meta charset=utf-8><title>Policies</title>"
    yield f"<style>{_STYLE}</style>"
    yield f"<h1>{_shown(first)}</h1>"
    yield from (f"<p>{_shown(line)}" for line in others)


def _rows(heads: Sequence[str], listed: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield an HTML table; yield nothing if it has no row. A line counts rows that are left out."""
    found = list(listed)
    if found:
        yield f"<table><tr><th>{'<th>'.join(heads)}"
        yield from (f"<tr><td>{'<td>'.join(map(_shown, one))}" for one in found[:MOST])
        yield "</table>"
    if len(found) > MOST:
        yield f"<p>{len(found) - MOST} more rows: see the JSON"


def _shown(text: str) -> str:
    return escape(single(text))


Cells = Mapping[tuple[int, int], tuple[str, str, bool]]
"""The colour and the word of each cell, and True for a cell with a frame, by the indexes of source
and destination."""


def _picture(letters: Sequence[str], cells: Cells, legend: Mapping[str, str]) -> Iterator[str]:
    """Yield the matrix as a picture: sources as rows, destinations as columns."""
    shown = letters[:MOST]
    side = CELL * (len(shown) + 2)
    drawn = [f'<svg width="{side}" height="{side}" role="img" aria-label="matrix">']
    for place, letter in enumerate(shown):
        middle = CELL * (place + 2) + 3
        drawn += [
            f'<text x="{middle}" y="{CELL}">{letter}</text>',
            f'<text x="0" y="{middle + 8}">{letter}</text>',
        ]
    for (row, column), (colour, what, is_framed) in cells.items():
        if max(row, column) < len(shown):
            frame = ' stroke="#000" stroke-width="2"' if is_framed else ""
            drawn.append(
                f'<rect x="{CELL * (column + 2)}" y="{CELL * (row + 2)}" width="{CELL - 2}" '
                f'height="{CELL - 2}" fill="{colour}"{frame}>'
                f"<title>{letters[row]} to {letters[column]}: {what}</title></rect>"
            )
    yield "".join([*drawn, "</svg>"])
    if len(letters) > len(shown):
        yield f"<p>{len(letters) - len(shown)} more groups are not drawn"
    names = (f'<span style="color:{colour}">{name}</span>' for name, colour in legend.items())
    yield f"<p>{', '.join(names)}; rows connect to columns"
