"""Script blocks, functions and script files as commands: their own scope, and their parameters."""

from __future__ import annotations

from collections.abc import Sequence

from hybridlab.powershell import syntax as s
from hybridlab.powershell.binding import Call, Given
from hybridlab.powershell.conversion import cast
from hybridlab.powershell.flow import Return
from hybridlab.powershell.scope import Scope, check_assignable
from hybridlab.powershell.shell import Shell, Stage
from hybridlab.powershell.syntax import NotEmulated

_DEFAULTS: dict[str, object] = {
    "int": 0,
    "int32": 0,
    "long": 0,
    "double": 0.0,
    "string": "",
    "bool": False,
    "switch": False,
}
"""The values of typed parameters that are not given."""


class BlockStage(Stage):
    """``& { ... }``, ``. { ... }`` and calls of functions."""

    def __init__(self, shell: Shell, call: Call, block: s.ScriptBlock, *, inherits: bool) -> None:
        super().__init__(shell, call)
        self._block = block
        self._inherits = inherits
        """Runs in the scope of its caller."""

    async def process(self, item: object) -> None:
        """Not emulated: $input and process blocks."""
        raise NotEmulated("pipeline input of a function or script block")

    async def alone(self) -> None:
        """Run it."""
        shell = self.shell
        outside = shell.scope
        if not self._inherits:
            shell.scope = Scope(outside)
        try:
            await bind_block(shell, self._block, self.call.arguments, self.call.name)
            await shell.run_block(self._block.body, self.emit)
        except Return:
            pass
        finally:
            shell.scope = outside


async def bind_block(shell: Shell, block: s.ScriptBlock, arguments: Sequence[Given], name: str) -> None:
    """Set a block's parameters and ``$args`` in the current scope."""
    variables = shell.scope.variables
    declared = block.parameters
    if declared is None:
        if any(given.parameter for given in arguments):
            raise NotEmulated(f"named arguments of {name}, which declares no parameters")
        variables["args"] = [given.value for given in arguments]
        return
    bound, bare = _split(declared, arguments, name)
    for parameter in declared:
        check_assignable(parameter.name)
        if parameter.name in bound:
            value = bound[parameter.name]
        elif bare and parameter.type_name != "switch":
            value = bare.pop(0)
        elif parameter.default is not None:
            value = await shell.value(parameter.default)
        else:
            variables[parameter.name] = _DEFAULTS.get(parameter.type_name)
            continue
        variables[parameter.name] = cast(parameter.type_name, value, parameter) if parameter.type_name else value
        if parameter.type_name and parameter.type_name != "switch":
            shell.scope.types[parameter.name] = parameter.type_name
    variables["args"] = bare


def _split(
    declared: Sequence[s.DeclaredParameter], arguments: Sequence[Given], name: str
) -> tuple[dict[str, object], list[object]]:
    """Arguments by parameter, and those without a name."""
    bound: dict[str, object] = {}
    bare: list[object] = []
    waiting = list(arguments)
    while waiting:
        given = waiting.pop(0)
        if not given.parameter:
            bare.append(given.value)
            continue
        key = given.parameter.lower()
        found = [parameter for parameter in declared if parameter.name == key] or [
            parameter for parameter in declared if parameter.name.startswith(key)
        ]
        if len(found) != 1 or found[0].name in bound:
            raise NotEmulated(f"parameter -{given.parameter} of {name}")
        if given.has_value or found[0].type_name == "switch":
            bound[found[0].name] = given.value if given.has_value else True
            continue
        if not waiting or waiting[0].parameter:
            raise NotEmulated(f"parameter -{given.parameter} of {name} without a value")
        bound[found[0].name] = waiting.pop(0).value
    return bound, bare
