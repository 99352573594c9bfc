"""List views of objects, 80 columns wide, as the lines of a host without a console."""

from hybridlab.powershell.faults import WIDTH, fold
from hybridlab.powershell.objects import HashTable, NetObject, to_text


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
