# SPDX-License-Identifier: Apache-2.0
"""Cmdlets that work on piped objects: ForEach-Object, Where-Object, Select-Object."""

from collections import deque

from hybridlab.powershell.binding import Call
from hybridlab.powershell.flow import Enough
from hybridlab.powershell.objects import (
    SELECTED,
    NetObject,
    enumerate_value,
    to_text,
    truth,
    unwrap,
)
from hybridlab.powershell.operators import to_int
from hybridlab.powershell.shell import Library, Shell, Stage
from hybridlab.powershell.syntax import NotEmulated, ScriptBlock

_OPERATORS = ("eq", "ne", "gt", "ge", "lt", "le", "match", "notmatch")


class _ForEach(Stage):
    def __init__(self, shell: Shell, call: Call) -> None:
        super().__init__(shell, call)
        if len(call.remaining) != 1 or not isinstance(call.remaining[0], ScriptBlock):
            raise NotEmulated("these arguments of ForEach-Object")
        self._block = call.remaining[0]

    async def process(self, item: object) -> None:
        await self.shell.call_block(self._block, self.emit, item)


class _Where(Stage):
    """Where-Object with a script block, or with a property, an operator and a value."""

    def __init__(self, shell: Shell, call: Call) -> None:
        super().__init__(shell, call)
        operators = [name for name in _OPERATORS if call.flag(name)]
        match call.remaining, operators:
            case ([ScriptBlock()], []) | ([str(), _], [_]):
                self._given = call.remaining
                self._operator = "".join(operators)
            case _:
                raise NotEmulated("these arguments of Where-Object")

    async def process(self, item: object) -> None:
        first = self._given[0]
        if isinstance(first, ScriptBlock):
            values: list[object] = []

            async def keep(value: object) -> None:
                values.append(value)

            await self.shell.call_block(first, keep, item)
            wanted = truth(unwrap(values))
        else:
            wanted = self.shell.comparison(
                self._operator, self.shell.property(item, to_text(first)), self._given[1]
            )
        if wanted:
            await self.emit(item)


class _Select(Stage):
    """Select-Object: the first or the last objects, some of their properties, or the value of a
    single property."""

    def __init__(self, shell: Shell, call: Call) -> None:
        super().__init__(shell, call)
        self._first = to_int(call.get("first"))
        self._taken = 0
        self._last = deque[object](maxlen=max(1, to_int(call.get("last"))))
        self._from_end = call.has("last")
        self._properties = [to_text(name) for name in enumerate_value(call.get("property"))]
        self._expanded = call.text("expandproperty")
        names = [name.lower() for name in (*self._properties, self._expanded)]
        wild = any(set(name) & set("*?[]") for name in names)
        several = len(names) != len(set(names)) or bool(self._expanded and self._properties)
        counts = [name for name in ("first", "last") if call.has(name)]
        if several or wild or counts[1:] or any(to_int(call.get(name)) < 1 for name in counts):
            raise NotEmulated("these arguments of Select-Object")

    async def process(self, item: object) -> None:
        if self._from_end:
            self._last.append(item)
        else:
            await self._selected(item)

    async def end(self) -> None:
        for item in self._last:
            await self._selected(item)

    async def _selected(self, item: object) -> None:
        self._taken += 1
        if (self._expanded or self._properties) and not isinstance(item, NetObject):
            raise NotEmulated("properties that Select-Object takes from this value")
        if self._expanded:
            if isinstance(item, NetObject) and not item.has(self._expanded):
                raise NotEmulated(
                    f"Select-Object -ExpandProperty {self._expanded}, which an object lacks"
                )
            value = self.shell.property(item, self._expanded)
            await self.put(enumerate_value(value) if value is not None else [None])
        elif self._properties:
            picked = {name: self.shell.property(item, name) for name in self._properties}
            await self.emit(NetObject.of_properties(SELECTED, picked))
        else:
            await self.emit(item)
        if self._taken == self._first:
            raise Enough(self)


def add_to(library: Library) -> None:
    """Register the cmdlets of this module with their aliases."""
    library.add("ForEach-Object", "Process*", _ForEach, "%", "foreach")
    switches = " ".join(
        f"{name}?" for name in ("EQ", "NE", "GT", "GE", "LT", "LE", "Match", "NotMatch")
    )
    library.add("Where-Object", f"FilterScript* {switches}", _Where, "?", "where")
    library.add("Select-Object", "Property@0 ExpandProperty First:int Last:int", _Select, "select")
