"""Stages made from a function: one that takes no pipeline input, and one that waits for all of it."""

from collections.abc import Awaitable, Callable

from hybridlab.powershell.binding import Call
from hybridlab.powershell.shell import Make, Shell, Stage

Once = Callable[[Shell, Call], Awaitable["list[object]"]]
Collecting = Callable[[Shell, Call, "list[object] | None"], Awaitable["list[object]"]]


def once(function: Once) -> Make:
    """A cmdlet that takes no pipeline input."""

    class _Once(Stage):
        async def alone(self) -> None:
            await self.put(await function(self.shell, self.call))

    return _Once


def collecting(function: Collecting) -> Make:
    """A cmdlet that waits for all of its pipeline input; without any it gets None."""

    class _Collecting(Stage):
        def __init__(self, shell: Shell, call: Call) -> None:
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
