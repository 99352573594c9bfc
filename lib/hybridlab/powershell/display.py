# SPDX-License-Identifier: Apache-2.0
"""Out-Default, which prints the objects that leave the script, as a host without a console does."""

from collections.abc import Awaitable, Callable

from hybridlab.powershell.faults import WIDTH, fold
from hybridlab.powershell.objects import HashTable, NetObject, to_text
from hybridlab.powershell.syntax import NotEmulated

Write = Callable[[str], Awaitable[None]]


class Display:
    """The printed output. Consecutive objects of the same kind share the blank lines of a list."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._kind = ""
        """The kind of the objects in the current list; empty when there is none."""

    async def show(self, value: object) -> None:
        """Print an object, or nothing for null.

        Raise NotEmulated if it is not known how PowerShell shows the object.
        """
        if isinstance(value, HashTable) or (isinstance(value, NetObject) and value.table):
            raise NotEmulated("showing a table")
        if isinstance(value, NetObject) and value.shown:
            await self._object(value)
        elif isinstance(value, NetObject) and value.type_name.startswith("System.Management"):
            raise NotEmulated(f"showing {value.type_name}")
        elif value is not None:
            for item in value if isinstance(value, (list, bytes)) else [value]:
                await self._line(to_text(item))

    async def _object(self, value: NetObject) -> None:
        if self._kind and self._kind != value.type_name:
            raise NotEmulated("objects of different types in one output")
        if not self._kind:
            await self._blank()
        self._kind = value.type_name
        for line in _list_lines(value):
            await self._line(line)

    async def finish(self) -> None:
        if self._kind:
            await self._blank()
        self._kind = ""

    async def _blank(self) -> None:
        for _ in range(2):
            await self._line("")

    async def _line(self, text: str) -> None:
        await self._write(f"{text}\r\n")


def _shown(value: object) -> str:
    """Return a property's text: collections in braces, with at most four members."""
    if isinstance(value, HashTable):
        value = [f"[{to_text(key)}, {to_text(item)}]" for key, item in value.items()]
    if isinstance(value, list):
        return (
            "{"
            + ", ".join(to_text(item) for item in value[:4])
            + ("..." if len(value) > 4 else "")
            + "}"
        )
    return to_text(value)


def _list_lines(item: NetObject) -> list[str]:
    """Return the lines of one object in a list, with the blank line after them."""
    lines = []
    names = item.shown
    width = max(len(name) for name in names)
    for name in names:
        first, *more = fold(_shown(item.view(name)), WIDTH - width - 4)
        lines.append(f"{name:<{width}} : {first}")
        lines += [" " * (width + 3) + line for line in more]
    return [*lines, ""]
