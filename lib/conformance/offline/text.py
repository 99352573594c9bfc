# SPDX-License-Identifier: Apache-2.0
"""The answer as text of 100 columns: sentences, groups, a matrix, and the cells that need more
space."""

import textwrap
from collections.abc import Iterator

from conformance.offline.summary import (
    FEW,
    PARTLY,
    SYMBOLS,
    WORDS,
    Cell,
    Summary,
    explained,
    named,
    some,
)

WIDTH = 100
MOST_GROUPS = 30
MOST_CELLS = 40
MOST_NOTES = 12
EVERYTHING = 10**9


def text(summary: Summary, *, whole: bool) -> Iterator[str]:
    """Yield the answer's lines. Unless ``whole`` is true, long lists are cut, and the omitted items
    are counted."""
    few, most_groups, most_cells, most_notes = (
        [EVERYTHING] * 4 if whole else (FEW, MOST_GROUPS, MOST_CELLS, MOST_NOTES)
    )
    yield from summary.headlines()
    yield ""
    yield f"GROUPS ({len(summary.groups)}: pods that every policy treats alike)"
    for group in summary.groups[:most_groups]:
        yield from wrapped(f"  {summary.of(group):<3} ", some(list(map(named, group.ends)), few))
    yield from _folded(len(summary.groups) - most_groups, "groups")
    yield ""
    yield from _matrix(summary, most_groups)
    notes: dict[tuple[str, ...], int] = {}
    reported = list(_cells(summary, notes))
    if reported:
        yield "BY PORT AND COLUMN"
        for lines in reported[:most_cells]:
            yield from lines
        yield from _folded(len(reported) - most_cells, "answers")
        yield ""
    for said, number in list(notes.items())[:most_notes]:
        yield from wrapped(f"[{number}] ", said[0])
        for line in said[1:]:
            yield from wrapped("    ", line)
    yield from _folded(len(notes) - most_notes, "explanations")
    for line in summary.notes(few if not whole else EVERYTHING):
        yield from wrapped("", line, "    ")


def wrapped(begin: str, told: str, further: str = "") -> Iterator[str]:
    """Yield a text in lines of 100 columns; ``further``: the beginning of all lines after the
    first."""
    indent = further or " " * len(begin)
    yield from textwrap.wrap(
        told, WIDTH, initial_indent=begin, subsequent_indent=indent, break_on_hyphens=False
    )


def _folded(number: int, what: str) -> Iterator[str]:
    if number > 0:
        yield f"  and {number} {what} more: --all"


def _matrix(summary: Summary, most: int) -> Iterator[str]:
    """Yield the matrix, in blocks that fit into 100 columns: sources as rows, destinations as
    columns."""
    symbols = ", ".join(f"{symbol} {name}" for name, symbol in SYMBOLS.items())
    yield "FROM (rows) TO (columns), as promised:"
    yield f"  {symbols}, - no path, * differs in a column"
    letters = [summary.of(group) for group in summary.groups]
    wide = max(3, len(letters[-1]) + 2)
    fits = (WIDTH - wide - 2) // wide
    shown = range(min(len(letters), most))
    for begin in range(0, len(shown), fits):
        block = shown[begin : begin + fits]
        yield "  " + " " * wide + "".join(letters[place].ljust(wide) for place in block).rstrip()
        for row in shown:
            cells = "".join(_symbol(summary.cells.get((row, place))).ljust(wide) for place in block)
            yield f"  {letters[row].ljust(wide)}{cells}".rstrip()
        yield ""


def _symbol(cell: Cell | None) -> str:
    return "-" if cell is None else SYMBOLS[cell.results.word] + "*" * cell.results.differs


def _cells(summary: Summary, notes: dict[tuple[str, ...], int]) -> Iterator[list[str]]:
    """Yield the answers that a symbol cannot show; cells with equal answers are listed together."""
    columns = [column.name for column in summary.reach.columns]
    for results in (one for one in summary.alike if one.differs or one.word == PARTLY):
        sources: dict[str, list[str]] = {}
        for one in summary.alike[results]:
            sources.setdefault(summary.of(one.destination), []).append(summary.of(one.source))
        pairs = "; ".join(f"{', '.join(each)} to {letter}" for letter, each in sources.items())
        lines = list(wrapped("  ", pairs, "    "))
        for where, answer in results.rows:
            marks = [notes.setdefault(said, len(notes) + 1) for said in explained(answer)]
            verdicts = _verdicts(columns, [WORDS[verdict] for verdict in answer.verdicts])
            refer = "".join(f" [{mark}]" for mark in marks)
            lines += wrapped("      ", f"{where}: {verdicts}{refer}", " " * 10)
        yield lines


def _verdicts(columns: list[str], words: list[str]) -> str:
    """Return a single word if all columns agree, else each word with its columns."""
    named = {
        word: [name for name, one in zip(columns, words, strict=True) if one == word]
        for word in words
    }
    if len(named) == 1:
        return words[0]
    return "; ".join(f"{', '.join(names)}: {word}" for word, names in named.items())
