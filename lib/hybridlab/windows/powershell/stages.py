"""Commands as stages of a pipeline: they take one object at a time and hand on what they make of it at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from hybridlab.windows.powershell.binding import Call
from hybridlab.windows.powershell.objects import enumerate_value
from hybridlab.windows.powershell.streams import Emit, drop
from hybridlab.windows.powershell.syntax import NotEmulated

if TYPE_CHECKING:
    from hybridlab.windows.powershell.interpreter import Interpreter


class Stage:
    """One command of a pipeline."""

    name = "command"

    def __init__(self, shell: Interpreter, call: Call) -> None:
        self.shell = shell
        self.call = call
        self.emit: Emit = drop
        """Where its output goes."""

    async def begin(self) -> None:
        """Before the first object."""

    async def process(self, item: object) -> None:
        """One object from the stage before."""
        raise NotEmulated(f"pipeline input of {self.call.name}")

    async def alone(self) -> None:
        """Instead of ``process`` when it is the first stage."""

    async def end(self) -> None:
        """After the last object."""

    async def put(self, values: list[object]) -> None:
        """Hand on objects."""
        for value in values:
            await self.emit(value)


Make = Callable[["Interpreter", Call], Stage]
Once = Callable[["Interpreter", Call], Awaitable[list[object]]]
Collecting = Callable[["Interpreter", Call, "list[object] | None"], Awaitable[list[object]]]


def once(function: Once) -> Make:
    """A cmdlet that takes no pipeline input."""

    class _Once(Stage):
        async def alone(self) -> None:
            await self.put(await function(self.shell, self.call))

    return _Once


def collecting(function: Collecting) -> Make:
    """A cmdlet that waits for all of its pipeline input; without any it gets None."""

    class _Collecting(Stage):
        def __init__(self, shell: Interpreter, call: Call) -> None:
            super().__init__(shell, call)
            self.items: list[object] | None = []

        async def process(self, item: object) -> None:
            if self.items is not None:
                self.items.append(item)

        async def alone(self) -> None:
            self.items = None

        async def end(self) -> None:
            await self.put(await function(self.shell, self.call, self.items))

    return _Collecting


def given_or_piped(call: Call, name: str, piped: list[object] | None) -> list[object]:
    """The objects of a parameter, or those that came through the pipeline."""
    if call.has(name):
        if piped:
            raise NotEmulated(f"pipeline input of {call.name} beside -{name}")
        return enumerate_value(call.get(name))
    return piped or []
