"""Running a pipeline: commands become stages, objects pass through them one at a time."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hybridlab.powershell import syntax as s
from hybridlab.powershell.binding import Call, Given, bind
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.flow import Enough
from hybridlab.powershell.objects import NumberText, to_text
from hybridlab.powershell.shell import Shell, Stage
from hybridlab.powershell.streams import Emit, Streams, redirected
from hybridlab.powershell.syntax import NotEmulated


@dataclass
class _Link:
    """A stage in its place: with its streams, and its errors made the script's."""

    shell: Shell
    stage: Stage
    streams: Streams
    failed: bool = False

    async def begin(self) -> None:
        await self._guarded(self.stage.begin)

    async def process(self, item: object) -> None:
        await self._guarded(lambda: self.stage.process(item))

    async def alone(self) -> None:
        await self._guarded(self.stage.alone)

    async def end(self) -> None:
        await self._guarded(self.stage.end)

    async def _guarded(self, run: Callable[[], Awaitable[None]]) -> None:
        shell = self.shell
        outside, shell.streams = shell.streams, self.streams
        try:
            await run()
        except Fault as fault:
            fault.at = fault.at or self.stage.call.node
            if not fault.terminating:
                self.failed = True
                await shell.write_error(fault, self.stage.call)
            else:
                raise
        finally:
            shell.streams = outside


async def run_pipeline(shell: Shell, node: s.Pipeline, emit: Emit) -> None:
    """Run a pipeline; its output goes to ``emit``, and ``$?`` tells whether all of it succeeded."""
    first = node.elements[0]
    commands = [item for item in node.elements if isinstance(item.node, s.Command)]
    made = [await _stage(shell, command.node) for command in commands if isinstance(command.node, s.Command)]
    links: list[_Link] = []
    downstream = emit
    for element, stage in zip(reversed(commands), reversed(made), strict=True):
        streams, stage.emit = redirected(shell.streams, downstream, element.redirections)
        link = _Link(shell, stage, streams)
        links.insert(0, link)
        downstream = link.process
    succeeded = True
    ended = 0
    try:
        for link in links:
            await link.begin()
        if isinstance(first.node, s.Command):
            await links[0].alone()
        else:
            await _expression(shell, first, downstream, links)
        while ended < len(links):
            ended += 1
            await links[ended - 1].end()
    except Enough as enough:
        place = next((i for i, link in enumerate(links) if link.stage is enough.stage), None)
        if place is None:
            raise
        for link in links[max(place, ended) :]:
            await link.end()
    succeeded = not any(link.failed or link.stage.failed for link in links)
    shell.succeeded = succeeded


async def _expression(shell: Shell, element: s.Element, downstream: Emit, links: list[_Link]) -> None:
    """The first element, when it is no command."""
    outside = shell.streams
    if element.redirections:
        shell.streams, downstream = redirected(outside, downstream, element.redirections)
    try:
        value = await shell.value(element.node)
        if isinstance(element.node, s.Assignment):
            return
    finally:
        shell.streams = outside
    for item in shell.output_of(element.node, value):
        await downstream(item)


async def _stage(shell: Shell, node: s.Command) -> Stage:
    """The command that a node names, with its arguments."""
    name = await shell.value(node.name)
    if isinstance(name, s.ScriptBlock):
        raise NotEmulated("a script block as a command")
    text = to_text(name)
    if node.operator == "." or not text:
        raise NotEmulated(f"command . {text}" if text else "an empty command")
    if isinstance(node.name, s.Literal) and not isinstance(node.name.value, str):
        raise NotEmulated(f"command {node.name.text}")
    key = shell.library.aliases.get(text.lower(), text.lower())
    cmdlet = shell.library.cmdlets.get(key)
    if cmdlet is not None:
        call = Call(node, cmdlet.name, text, await _arguments(shell, node))
        bind(call, cmdlet.parameters)
        return cmdlet.make(shell, call)
    tool = key.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".exe")
    found = shell.library.tools.get(tool)
    if found is None:
        kind = "cmdlet" if "-" in text and text.replace("-", "").isalpha() else "command"
        raise NotEmulated(f"{kind} {text}")
    return found(shell, Call(node, tool, text, await _arguments(shell, node)))


async def _arguments(shell: Shell, node: s.Command) -> list[Given]:
    found: list[Given] = []
    for argument in node.arguments:
        if isinstance(argument, s.Parameter):
            word = shell.script[argument.start : argument.end]
            value = await shell.value(argument.value) if argument.value is not None else None
            found.append(Given(argument.name, value, argument.value is not None, word))
        else:
            found.append(Given("", await _argument(shell, argument), word=shell.script[argument.start : argument.end]))
    return found


async def _argument(shell: Shell, node: s.Node) -> object:
    if isinstance(node, s.Array):
        return [await _argument(shell, item) for item in node.items]
    value = await shell.value(node)
    if isinstance(node, s.Literal) and node.text and isinstance(value, (int, float)) and to_text(value) != node.text:
        return NumberText.of(node.text, value)
    return value
