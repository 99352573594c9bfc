"""List and table views of objects, 80 columns wide, as the lines of a host without a console."""

from __future__ import annotations

from hybridlab.powershell.faults import WIDTH, fold
from hybridlab.powershell.objects import HashTable, NetObject, to_text
from hybridlab.powershell.syntax import NotEmulated

_HASH_KEY = 30
"""Columns of a hashtable's keys."""


def shown(value: object) -> str:
    """A property's value: collections in braces, at most four of their members."""
    if isinstance(value, (list, HashTable)):
        items = (
            [f"[{to_text(k)}, {to_text(v)}]" for k, v in value.items()]
            if isinstance(value, HashTable)
            else [to_text(i) for i in value]
        )
        return "{" + ", ".join(items[:4]) + ("..." if len(items) > 4 else "") + "}"
    return to_text(value)


def list_lines(item: NetObject) -> list[str]:
    """One object of a list, with the blank line after it."""
    lines = []
    names = item.shown or tuple(item.properties)
    width = max(len(name) for name in names)
    for name in names:
        first, *more = fold(shown(item.view(name)), WIDTH - width - 4)
        lines.append(f"{name:<{width}} : {first}")
        lines += [" " * (width + 3) + line for line in more]
    return [*lines, ""]


def table_head(rows: list[NetObject]) -> tuple[list[int], list[str]]:
    """The columns' widths, negative where they are aligned to the right, and the lines above the rows.

    Raises NotEmulated for a table that is wider than the host: its columns are cut by rules of their own.
    """
    names = rows[0].table
    widths = []
    for name in names:
        cells = [row.get(name) for row in rows]
        width = max(len(name), *(len(shown(cell)) for cell in cells))
        number = isinstance(cells[0], (int, float)) and not isinstance(cells[0], bool)
        widths.append(-width if number else width)
    if rows[0].type_name == "System.Collections.DictionaryEntry":
        if max(map(abs, widths[:1])) > _HASH_KEY or _HASH_KEY + 1 + abs(widths[1]) > WIDTH:
            raise NotEmulated("a table wider than 80 columns")
        widths = [_HASH_KEY, abs(widths[1])]
    if sum(map(abs, widths)) + len(widths) > WIDTH:
        raise NotEmulated("a table wider than 80 columns")
    return widths, ["", _cells(names, widths), _cells(tuple("-" * len(name) for name in names), widths)]


def table_row(row: NetObject, widths: list[int]) -> str:
    """One line of a table."""
    return _cells(tuple(shown(row.get(name)) for name in row.table), widths)


def _cells(cells: tuple[str, ...], widths: list[int]) -> str:
    return " ".join(
        cell.ljust(width) if width >= 0 else cell.rjust(-width) for cell, width in zip(cells, widths, strict=True)
    ).rstrip()
