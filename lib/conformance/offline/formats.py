# SPDX-License-Identifier: Apache-2.0
"""The answer as JSON, Markdown and HTML, in which the matrix is a picture.

All that objects name goes through the suite's door for text, and is escaped for the format.
"""

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from conformance.offline.summary import PARTLY, WORDS, Summary, explained, named, rows, some, word
from conformance.printing import plain, single, within

FEW = 3
MOST = 60
"""Groups in the picture, and in Markdown's table."""
CELL = 14
COLOURS = {"open": "#2a9d5c", "closed": "#c0392b", PARTLY: "#e0a020"}
_OTHER = "#8888aa"
_STYLE = (
    "body{font:14px sans-serif;margin:2em;max-width:70em}td,th{padding:2px 8px;text-align:left;"
    "border-bottom:1px solid #ddd;vertical-align:top}svg text{font:10px sans-serif}"
)


def as_plain(summary: Summary) -> dict[str, Any]:
    """Return the whole answer as plain data.

    ``matrix``: for each group of sources and each of destinations the place of its answers among
    ``answers``; null where there is nothing to say.
    """
    places: dict[tuple[int, ...], int] = {}
    cells = {
        place: places.setdefault(tuple(map(id, cell.answers)), len(places))
        for place, cell in summary.cells.items()
    }
    reported = {cells[place]: rows(cell) for place, cell in summary.cells.items()}
    every = range(len(summary.groups))
    return {
        "columns": [column.name for column in summary.reach.columns],
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
                for where, answer in reported[number]
            ]
            for number in range(len(places))
        ],
        "matrix": [[cells.get((row, column)) for column in every] for row in every],
        "notes": list(summary.notes(10**9)),
    }


def as_json(value: Any) -> str:
    """Return plain data as JSON."""
    return json.dumps(within(value, plain), ensure_ascii=False) + "\n"


def _cell_rows(summary: Summary) -> Iterator[tuple[str, list[str], str]]:
    """Yield pairs, a word for each column, and explanations, where a word is not enough."""
    columns = range(len(summary.reach.columns))
    for cell in summary.cells.values():
        if cell.differs or cell.word == PARTLY:
            pair = f"{summary.of(cell.source)} to {summary.of(cell.destination)}"
            for where, answer in rows(cell):
                words = [word([answer], column) for column in columns]
                why = " / ".join(line for said in explained(answer) for line in said)
                yield f"{pair}, {where}", words, why


def _groups(summary: Summary) -> Iterator[tuple[str, str]]:
    for group in summary.groups:
        yield summary.of(group), some([named(end) for end in group.ends], FEW)


def as_markdown(summary: Summary) -> str:
    """Return the answer as Markdown."""
    columns = [column.name for column in summary.reach.columns]
    lines = [f"- {_marked(line)}" for line in summary.headlines()]
    lines += ["", "| group | pods that every policy treats alike |", "| --- | --- |"]
    lines += [f"| {letter} | {_marked(names)} |" for letter, names in _groups(summary)]
    shown = summary.groups[:MOST]
    lines += ["", "| from \\ to | " + " | ".join(map(summary.of, shown)) + " |"]
    lines.append("| --- |" + " --- |" * len(shown))
    for row, group in enumerate(shown):
        cells = [summary.cells.get((row, place)) for place in range(len(shown))]
        words = ("" if cell is None else cell.word + " \\*" * cell.differs for cell in cells)
        lines.append(f"| {summary.of(group)} | {' | '.join(words)} |")
    reported = list(_cell_rows(summary))
    if reported:
        lines += [
            "",
            f"| path | {' | '.join(columns)} | why |",
            "| --- " * (len(columns) + 2) + "|",
        ]
        lines += [
            f"| {' | '.join([where, *words, _marked(why)])} |"
            for where, words, why in reported[:MOST]
        ]
        if len(reported) > MOST:
            lines.append(f"\n{len(reported) - MOST} rows more: see the JSON")
    lines += ["", *(f"- {_marked(note)}" for note in summary.notes(FEW))]
    return "\n".join(lines) + "\n"


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
    first, *others = summary.headlines()
    columns = [column.name for column in summary.reach.columns]
    parts = [
        "<!doctype html><meta charset=utf-8><title>Policies</title>",
        f"<style>{_STYLE}</style>",
    ]
    parts += [f"<h1>{_shown(first)}</h1>", *(f"<p>{_shown(line)}" for line in others)]
    parts.append(_picture(summary))
    parts.append("<table><tr><th>group<th>pods that every policy treats alike")
    parts += [f"<tr><td>{letter}<td>{_shown(names)}" for letter, names in _groups(summary)]
    parts.append("</table>")
    reported = list(_cell_rows(summary))
    if reported:
        parts.append(f"<table><tr><th>path<th>{'<th>'.join(columns)}<th>why")
        for where, words, why in reported[:MOST]:
            parts.append(f"<tr><td>{_shown(where)}<td>{'<td>'.join(words)}<td>{_shown(why)}")
        parts.append("</table>")
        if len(reported) > MOST:
            parts.append(f"<p>{len(reported) - MOST} rows more: see the JSON")
    parts += [f"<p>{_shown(note)}" for note in summary.notes(FEW)]
    return "\n".join(parts) + "\n"


def _shown(text: str) -> str:
    return escape(single(text))


def _picture(summary: Summary) -> str:
    """Return the matrix as a picture: sources below, destinations beside each other; a frame marks
    what a column decides otherwise."""
    shown = summary.groups[:MOST]
    side = CELL * (len(shown) + 2)
    drawn = [f'<svg width="{side}" height="{side}" role="img" aria-label="matrix">']
    for place, group in enumerate(shown):
        middle = CELL * (place + 2) + 3
        letter = summary.of(group)
        drawn.append(f'<text x="{middle}" y="{CELL}">{letter}</text>')
        drawn.append(f'<text x="0" y="{middle + 8}">{letter}</text>')
    for (row, column), cell in summary.cells.items():
        if max(row, column) < len(shown):
            x, y = CELL * (column + 2), CELL * (row + 2)
            text = f"{summary.of(cell.source)} to {summary.of(cell.destination)}: {cell.word}"
            frame = ' stroke="#000" stroke-width="2"' if cell.differs else ""
            drawn.append(
                f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" '
                f'fill="{COLOURS.get(cell.word, _OTHER)}"{frame}><title>{text}</title></rect>'
            )
    more = len(summary.groups) - len(shown)
    note = f"<p>{more} groups more are not drawn" if more > 0 else ""
    legend = ", ".join(
        f'<span style="color:{colour}">{name}</span>' for name, colour in COLOURS.items()
    )
    return "".join([*drawn, "</svg>", note, f"<p>{legend}; a frame: otherwise in a column"])
