"""Script blocks as commands, in a scope of their own."""

from __future__ import annotations

from collections.abc import Sequence

from hybridlab.powershell import syntax as s
from hybridlab.powershell.binding import Call, Given
from hybridlab.powershell.flow import Return
from hybridlab.powershell.scope import Scope
from hybridlab.powershell.shell import Shell, Stage
from hybridlab.powershell.syntax import NotEmulated


class BlockStage(Stage):
    """``& { ... }`` and ``. { ... }``."""

    def __init__(self, shell: Shell, call: Call, block: s.ScriptBlock, *, inherits: bool) -> None:
        super().__init__(shell, call)
        self._block = block
        self._inherits = inherits
        """Runs in the scope of its caller."""

    async def process(self, item: object) -> None:
        """Not emulated: $input and process blocks."""
        raise NotEmulated("pipeline input of a script block")

    async def alone(self) -> None:
        """Run it."""
        shell = self.shell
        outside = shell.scope
        if not self._inherits:
            shell.scope = Scope(outside)
        try:
            bind_arguments(shell, self.call.arguments, self.call.name)
            await shell.run_block(self._block.body, self.emit)
        except Return:
            pass
        finally:
            shell.scope = outside


def bind_arguments(shell: Shell, arguments: Sequence[Given], name: str) -> None:
    """Set ``$args`` in the current scope; ``param(...)`` is not emulated."""
    if any(given.parameter for given in arguments):
        raise NotEmulated(f"named arguments of {name}, which declares no parameters")
    shell.scope.variables["args"] = [given.value for given in arguments]
