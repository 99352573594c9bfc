"""``powershell.exe``: its own arguments, and one run of the interpreter."""

import asyncio
from dataclasses import dataclass
from functools import cache

from hybridlab.powershell import dotnet, host, items, json_text, network, piping, registry, remote_access, web, writing
from hybridlab.powershell.faults import Fault, position
from hybridlab.powershell.flow import Exit
from hybridlab.powershell.interpreter import Interpreter
from hybridlab.powershell.parser import parse
from hybridlab.powershell.shell import Library
from hybridlab.powershell.syntax import Node, NotEmulated, SyntaxFault
from hybridlab.probe_programs import recorded
from hybridlab.probe_programs.run import run as run_probe_program
from hybridlab.runtime.applet import Process

_SWITCHES = ("nologo", "noprofile", "noninteractive", "sta", "mta", "noexit")
_VALUES = {
    "executionpolicy": ("bypass", "unrestricted", "remotesigned"),
    "outputformat": ("text",),
    "inputformat": ("text", "none"),
    "windowstyle": ("hidden", "normal", "minimized", "maximized"),
}
"""What may be given with these; Restricted and AllSigned keep script files from running, XML changes all output."""
_SCRIPT = ("command", "file")
_SHORT = {
    "c": "command",
    "f": "file",
    "ep": "executionpolicy",
    "ex": "executionpolicy",
    "nop": "noprofile",
    "noni": "noninteractive",
    "of": "outputformat",
    "o": "outputformat",
    "w": "windowstyle",
}


@dataclass(frozen=True)
class _Invocation:
    script: str = ""
    file: str = ""
    arguments: tuple[str, ...] = ()
    interactive: bool = False


class _Bad(Exception):
    """The command line is wrong; the message goes to standard error."""


def _flag(word: str) -> str:
    name = word.lstrip("-/").lower()
    if name in _SHORT:
        return _SHORT[name]
    known = (*_SCRIPT, *_SWITCHES, *_VALUES)
    full = [name] if name in known else [item for item in known if name and item.startswith(name)]
    if len(full) == 1:
        return full[0]
    raise NotEmulated(f"powershell -{name}")


def _parse(words: list[str]) -> _Invocation:
    while words:
        word = words.pop(0)
        if not word.startswith(("-", "/")):
            return _Invocation(script=" ".join([word, *words]))
        flag = _flag(word)
        if flag in _SWITCHES:
            if flag == "noexit":
                raise NotEmulated("powershell -NoExit")
            continue
        if not words:
            raise _Bad(f"Cannot process the command because of a missing parameter. A command must follow {word}.")
        if flag in _VALUES:
            value = words.pop(0)
            if value.lower() not in _VALUES[flag]:
                raise NotEmulated(f"powershell {word} {value}")
        elif flag == "command":
            if words == ["-"]:
                raise NotEmulated("powershell -Command - (a script on standard input)")
            return _Invocation(script=" ".join(words))
        else:
            return _Invocation(file=words[0], arguments=tuple(words[1:]))
    return _Invocation(interactive=True)


@cache
def library() -> Library:
    """All cmdlets and types."""
    made = Library()
    for module in (writing, piping, json_text, items, web, network, dotnet, host, registry, remote_access):
        module.add_to(made)
    return made


async def run(process: Process) -> int:
    """One powershell, from its command line to its exit status."""
    try:
        return await _run(process, library())
    except NotEmulated as missing:
        await process.stderr.write(f"not emulated: {missing}\n".encode())
        return 1
    except _Bad as bad:  # it ends with 0xFFFD0000
        await process.stderr.write(f"not emulated: the answer to a wrong command line: {bad}\n".encode())
        return 1
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
        # a defect of this emulation: the script fails by name, as with all that is missing, and the lab goes on
        words = f"this script ({type(error).__name__} in the lab's PowerShell: {error})"
        await process.stderr.write(f"not emulated: {words}\n".encode())
        return 1


async def _run(process: Process, known: Library) -> int:
    invocation = _parse(list(process.argv[1:]))
    start = float(process.settings.get("powershell_start_ms", 0))
    if start:
        await asyncio.sleep(start / 1000)
    if invocation.interactive:
        raise NotEmulated("interactive powershell")
    script, name = invocation.script, ""
    if invocation.file:
        name = invocation.file
        try:
            content = process.files.read(name)
        except OSError:
            raise _Bad(
                f"The argument '{name}' to the -File parameter does not exist. Provide the path to an existing '.ps1' "
                "file as an argument to the -File parameter."
            ) from None
        if recorded.speaks_protocol(content):
            return await run_probe_program(process, name, content, invocation.arguments)
        script = content.decode("utf-8-sig", "replace")
    shell = Interpreter(process, known, script, name=name)
    async with shell.closing:
        return await _interpret(shell, invocation)


async def _interpret(shell: Interpreter, invocation: _Invocation) -> int:
    try:
        await shell.run(parse(shell.script), invocation.arguments)
    except Exit as done:
        return done.status
    except SyntaxFault as fault:
        at = Node(min(fault.at, len(shell.script)), min(fault.at + 1, len(shell.script)))
        lines = [*position(shell.script, at), str(fault)]
        lines += ["    + CategoryInfo          : ParserError: (:) [], ParentContainsErrorRecordException"]
        lines += ["    + FullyQualifiedErrorId : ParserError", " "]
        await shell.process.stderr.write("".join(f"{line}\r\n" for line in lines).encode())
        return 1
    except Fault as fault:
        await shell.report(fault)
        return 1
    if invocation.file:
        return 0
    return 0 if shell.succeeded else 1
