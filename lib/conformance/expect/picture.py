"""A truth table as a drawing: expected and observed side by side, a row per source, a column per target.

Wrong cells are framed and hatched, so that they are found without colours, too.  Text is escaped; nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

CELL, ROW, GAP, TOP = 112, 26, 36, 64
"""Width of a cell, height of a row, space between the two tables, space for the heads; pixels."""
LETTER = 7.2
"""Pixels that one letter of the 12 px type is wide, on average."""
OPEN, CLOSED, OTHER = "#dff0d8", "#e8e8e8", "#fbe3c8"
WRONG = "#c0392b"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One path of the table."""

    source: str
    target: str
    expected: str
    observed: str
    right: bool


def draw(title: str, cells: Sequence[Cell]) -> str:
    """SVG text."""
    sources = list(dict.fromkeys(cell.source for cell in cells))
    targets = list(dict.fromkeys(cell.target for cell in cells))
    names = 16 + LETTER * max(len(source) for source in sources)
    # a row of heads for every target, as their names are wider than the columns
    heads = TOP + 16 * len(targets)
    table = CELL * len(targets)
    width, height = names + 2 * table + GAP + 16, heads + ROW * len(sources) + 40
    wrong = sum(not cell.right for cell in cells)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="12">',
        '<defs><pattern id="wrong" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="6" height="6" fill="#f9d6d2"/>'
        f'<line y2="6" stroke="{WRONG}" stroke-width="1.5"/></pattern></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        _text(8, 20, f"{title}: {wrong} of {len(cells)} wrong" if wrong else f"{title}: as expected", weight="bold"),
    ]
    parts += [_text(8, 40 + 16 * number, f"{number + 1}: {target}") for number, target in enumerate(targets)]
    for left, head in ((names, "expected"), (names + table + GAP, "observed")):
        parts.append(_text(left, heads - 22, head, weight="bold"))
        parts += [
            _text(left + CELL * (number + 0.5), heads - 6, str(number + 1), anchor="middle")
            for number in range(len(targets))
        ]
    parts += [_text(8, heads + ROW * (number + 0.66), source) for number, source in enumerate(sources)]
    for cell in cells:
        row, column = sources.index(cell.source), targets.index(cell.target)
        top = heads + ROW * row
        parts += _cell(names + CELL * column, top, cell.expected, right=True)
        parts += _cell(names + table + GAP + CELL * column, top, cell.observed, right=cell.right)
    legend = "hatched and framed: wrong"
    parts.append(_text(8, height - 12, legend if wrong else ""))
    return "\n".join([*parts, "</svg>"])


def _cell(left: float, top: float, word: str, *, right: bool) -> list[str]:
    fill = {"CONNECTED": OPEN, "TIMED_OUT": CLOSED}.get(word, OTHER) if right else "url(#wrong)"
    frame = ("#999", 0.5) if right else (WRONG, 2.5)
    shown = word if len(word) * LETTER < CELL else word[: int(CELL / LETTER) - 1] + "…"
    return [
        f'<rect x="{left + 1:.0f}" y="{top + 1:.0f}" width="{CELL - 2}" height="{ROW - 2}" fill="{fill}" '
        f'stroke="{frame[0]}" stroke-width="{frame[1]}"><title>{escape(word)}</title></rect>',
        _text(left + CELL / 2, top + ROW * 0.66, shown, anchor="middle", weight="normal" if right else "bold"),
    ]


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'
