# SPDX-License-Identifier: Apache-2.0
"""Pipeline stages that are made from a function, for cmdlets without pipeline input."""

from collections.abc import Awaitable, Callable

from hybridlab.powershell.binding import Call
from hybridlab.powershell.shell import Make, Shell, Stage

Once = Callable[[Shell, Call], Awaitable["list[object]"]]


def once(function: Once) -> Make:
    """Return a cmdlet without pipeline input."""

    class _Once(Stage):
        async def alone(self) -> None:
            await self.put(await function(self.shell, self.call))

    return _Once
