# SPDX-License-Identifier: Apache-2.0
"""Running a pipeline: commands become stages, objects pass through them one at a time."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hybridlab.powershell import syntax as s
from hybridlab.powershell.binding import Call, Given, bind
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.flow import Enough
from hybridlab.powershell.shell import Emit, Shell, Stage
from hybridlab.powershell.syntax import NotEmulated


@dataclass
class _Link:
    """The connection of a stage to its pipeline; it reports the stage's errors as errors of the
    script."""

    shell: Shell
    stage: Stage
    failed: bool = False

    async def process(self, item: object) -> None:
        await self.guarded(lambda: self.stage.process(item))

    async def guarded(self, run: Callable[[], Awaitable[None]]) -> None:
        try:
            await run()
        except Fault as fault:
            fault.at = fault.at or self.stage.call.node
            if fault.terminating:
                raise
            self.failed = True
            await self.shell.write_error(fault, self.stage.call)


async def run_pipeline(shell: Shell, node: s.Pipeline, emit: Emit) -> None:
    """Run a pipeline.

    Send its output to ``emit``, and set ``succeeded`` if every stage succeeded.
    """
    first = node.elements[0]
    commands = [item for item in node.elements if isinstance(item, s.Command)]
    links = [_Link(shell, await _stage(shell, command)) for command in commands]
    downstream = emit
    for link in reversed(links):
        link.stage.emit = downstream
        downstream = link.process
    ended = 0
    try:
        if isinstance(first, s.Command):
            await links[0].guarded(links[0].stage.alone)
        else:
            for item in shell.output_of(first, await shell.value(first)):
                await downstream(item)
        while ended < len(links):
            ended += 1
            await links[ended - 1].guarded(links[ended - 1].stage.end)
    except Enough as enough:
        place = next((i for i, link in enumerate(links) if link.stage is enough.stage), None)
        if place is None:
            raise
        for link in links[max(place, ended) :]:
            await link.guarded(link.stage.end)
    shell.succeeded = not any(link.failed or link.stage.failed for link in links)


async def _stage(shell: Shell, node: s.Command) -> Stage:
    """Return the command that a node names, with its arguments bound."""
    name = await shell.value(node.name)
    if not name or not isinstance(name, str):
        raise NotEmulated("a command that is not a name")
    key = shell.library.aliases.get(name.lower(), name.lower())
    cmdlet = shell.library.cmdlets.get(key)
    if cmdlet is not None:
        call = Call(node, cmdlet.name, name, await _arguments(shell, node))
        bind(call, cmdlet.parameters)
        return cmdlet.make(shell, call)
    tool = key.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".exe")
    found = shell.library.tools.get(tool)
    if found is None:
        kind = "cmdlet" if "-" in name and name.replace("-", "").isalpha() else "command"
        raise NotEmulated(f"{kind} {name}")
    return found(shell, Call(node, tool, name, await _arguments(shell, node)))


async def _arguments(shell: Shell, node: s.Command) -> list[Given]:
    found: list[Given] = []
    for argument in node.arguments:
        word = shell.script[argument.start : argument.end]
        if isinstance(argument, s.Parameter):
            found.append(Given(argument.name, None, word))
        else:
            found.append(Given("", await shell.value(argument), word))
    return found
