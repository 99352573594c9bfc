"""Out-Default: what reaches the end of the script, as the text that a host without a console prints."""

from collections.abc import Awaitable, Callable

from hybridlab.powershell.faults import WIDTH, ErrorRecord, fold, render
from hybridlab.powershell.objects import HashTable, NetObject, TypedList, to_text
from hybridlab.powershell.syntax import NotEmulated, TypeName

Write = Callable[[str], Awaitable[None]]


class Display:
    """Objects are shown as they come; objects of one kind in a row share a list's blank lines."""

    def __init__(self, write: Write, *, script: str, name: str) -> None:
        self._write = write
        self._script, self._name = script, name
        self._kind = ""
        """The kind of the objects in the list that is open; empty when none is."""

    async def show(self, value: object) -> None:
        """One object; nothing for null.  Raises NotEmulated where its view is not known."""
        if value is None:
            return
        if isinstance(value, HashTable) or (isinstance(value, NetObject) and value.table):
            raise NotEmulated("showing a table")
        if isinstance(value, NetObject) and value.shown:
            await self._object(value)
        else:
            for line in self._text(value):
                await self._line(line)

    def _text(self, value: object) -> list[str]:
        if isinstance(value, ErrorRecord):
            return render(value.fault, self._script, name=self._name)
        if isinstance(value, NetObject):
            if value.text is None or value.type_name.startswith(("System.Management", "System.Runtime", "System.Time",
                                                                  "System.Coll")):  # fmt: skip
                raise NotEmulated(f"showing {value.type_name}")
            return [value.text]
        if isinstance(value, TypeName):
            raise NotEmulated(f"showing the type [{value.name}]")
        if isinstance(value, (list, bytes)) and not isinstance(value, TypedList):
            return [line for item in value for line in self._text(item)]
        return [to_text(value)]

    async def _object(self, value: NetObject) -> None:
        if self._kind and self._kind != value.type_name:
            raise NotEmulated("objects of different types in one output")
        if not self._kind:
            await self._blank()
        self._kind = value.type_name
        for line in _list_lines(value):
            await self._line(line)

    async def finish(self) -> None:
        """End the list that is open."""
        if self._kind:
            await self._blank()
        self._kind = ""

    async def _blank(self) -> None:
        for _ in range(2):
            await self._line("")

    async def _line(self, text: str) -> None:
        await self._write(f"{text}\r\n")


def _shown(value: object) -> str:
    """A property's value: collections in braces, at most four of their members."""
    if isinstance(value, (list, HashTable)):
        items = (
            [f"[{to_text(k)}, {to_text(v)}]" for k, v in value.items()]
            if isinstance(value, HashTable)
            else [to_text(i) for i in value]
        )
        return "{" + ", ".join(items[:4]) + ("..." if len(items) > 4 else "") + "}"
    return to_text(value)


def _list_lines(item: NetObject) -> list[str]:
    """One object of a list, with the blank line after it."""
    lines = []
    names = item.shown or tuple(item.properties)
    width = max(len(name) for name in names)
    for name in names:
        first, *more = fold(_shown(item.view(name)), WIDTH - width - 4)
        lines.append(f"{name:<{width}} : {first}")
        lines += [" " * (width + 3) + line for line in more]
    return [*lines, ""]
