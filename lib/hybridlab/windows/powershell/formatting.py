"""Out-Default: objects at the end of a pipeline as the text that a host without a console prints."""

from __future__ import annotations

from hybridlab.windows.powershell.faults import WIDTH, fold
from hybridlab.windows.powershell.objects import HashTable, NetObject, to_text


def render(values: list[object]) -> list[str]:
    """The lines for the whole output, object after object."""
    lines: list[str] = []
    place = 0
    while place < len(values):
        value = values[place]
        group = [value]
        while isinstance(value, NetObject) and place + len(group) < len(values):
            following = values[place + len(group)]
            if not isinstance(following, NetObject) or following.type_name != value.type_name:
                break
            group.append(following)
        place += len(group)
        if isinstance(value, NetObject) and value.table:
            lines += _table([g for g in group if isinstance(g, NetObject)], value.table)
        elif isinstance(value, NetObject) and (value.shown or value.text is None):
            lines += _list([g for g in group if isinstance(g, NetObject)])
        elif isinstance(value, HashTable):
            lines += _hash(value)
        else:
            lines += [to_text(item) for item in group]
    return lines


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


def _list(objects: list[NetObject]) -> list[str]:
    lines = ["", ""]
    for item in objects:
        names = item.shown or tuple(item.properties)
        width = max(len(name) for name in names)
        for name in names:
            first, *more = fold(shown(item.view(name)), WIDTH - width - 4)
            lines.append(f"{name:<{width}} : {first}")
            lines += [" " * (width + 3) + line for line in more]
        lines.append("")
    return [*lines, "", ""]


def _table(objects: list[NetObject], names: tuple[str, ...]) -> list[str]:
    rows = [[shown(item.get(name)) for name in names] for item in objects]
    widths = [max(len(name), *(len(row[i]) for row in rows)) for i, name in enumerate(names)]

    def line(cells: list[str] | tuple[str, ...]) -> str:
        return " ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))

    return ["", line(names), line(["-" * len(name) for name in names]), *(line(row) for row in rows), "", ""]


def _hash(table: HashTable) -> list[str]:
    lines = ["", f"{'Name':<30} {'Value':<47}", f"{'----':<30} {'-----':<47}"]
    lines += [f"{to_text(key):<30} {shown(value):<47}" for key, value in table.items()]
    return [*lines, "", ""]
