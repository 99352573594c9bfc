# SPDX-License-Identifier: Apache-2.0
"""``powershell.exe``: its own arguments, and a single run of the interpreter."""

import asyncio
from collections.abc import Sequence
from functools import cache

from hybridlab.powershell import (
    dotnet,
    host,
    items,
    json_text,
    network,
    piping,
    registry,
    remote_access,
    web,
    writing,
)
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.flow import Exit
from hybridlab.powershell.interpreter import Interpreter
from hybridlab.powershell.parser import parse
from hybridlab.powershell.shell import Library
from hybridlab.powershell.syntax import NotEmulated
from hybridlab.probe_programs import recorded
from hybridlab.probe_programs.run import run as run_probe_program
from hybridlab.runtime.applet import Files, Process

_SWITCHES = ("-nologo", "-noprofile", "-noninteractive")
_VALUES = {"-executionpolicy": "bypass", "-outputformat": "text"}
"""The only accepted values of some options: other execution policies may forbid script files
(Restricted, AllSigned), and XML changes all output."""


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Return either the script's words or the file's path with its arguments. Raise NotEmulated."""
    while words:
        word = words[0]
        flag = words[0].lower()
        if not word.startswith(("-", "/")):
            return words, []
        words = words[1:]
        if flag in ("-c", "-command") and words not in ([], ["-"]):
            return words, []
        if flag == "-file" and words:
            return [], words
        if words and _VALUES.get(flag) == words[0].lower():
            words = words[1:]
        elif flag not in _SWITCHES:
            raise NotEmulated(f"powershell {word}")
    raise NotEmulated("interactive powershell")


def probe_program(argv: Sequence[str], files: Files) -> tuple[str, list[str]] | None:
    """Return the path and arguments of the probe program in a command line; None if the command
    line names no probe program."""
    try:
        _, file = _split(list(argv[1:]))
        if file and recorded.speaks_protocol(files.read(file[0])):
            return file[0], file[1:]
    except (NotEmulated, OSError):
        pass
    return None


@cache
def library() -> Library:
    """Return all cmdlets and types."""
    made = Library()
    for module in (
        writing,
        piping,
        json_text,
        items,
        web,
        network,
        dotnet,
        host,
        registry,
        remote_access,
    ):
        module.add_to(made)
    return made


async def run(process: Process) -> int:
    """Run ``powershell.exe``, from its command line to its exit status."""
    try:
        return await _run(process, library())
    except NotEmulated as missing:
        await process.stderr.write(f"not emulated: {missing}\n".encode())
        return 1
    except (
        TypeError,
        ValueError,
        AttributeError,
        LookupError,
        ArithmeticError,
        RecursionError,
    ) as error:
        # A defect of this emulation: end the script as for a missing feature, and let the lab
        # continue.
        words = f"this script ({type(error).__name__} in the lab's PowerShell: {error})"
        await process.stderr.write(f"not emulated: {words}\n".encode())
        return 1


async def _run(process: Process, known: Library) -> int:
    words, file = _split(list(process.argv[1:]))
    start = float(process.settings.get("powershell_start_ms", 0))
    if start:
        await asyncio.sleep(start / 1000)
    if file:
        return await _file(process, file[0], file[1:])
    shell = Interpreter(process, known, " ".join(words))
    async with shell.closing:
        try:
            await shell.run(parse(shell.script))
        except Exit as done:
            return done.status
        except Fault as fault:
            await shell.report(fault)
            return 1
    return 0 if shell.succeeded else 1


async def _file(process: Process, path: str, arguments: list[str]) -> int:
    try:
        content = process.files.read(path)
    except OSError:
        raise NotEmulated(f"the error for a script file that does not exist, {path}") from None
    if not recorded.speaks_protocol(content):
        raise NotEmulated(f"the script file {path}, which is not a probe program")
    # a probe program that can run as a process never gets here
    if "powershell" in process.settings:
        raise NotEmulated(f"the probe program {path} from inside another program")
    return await run_probe_program(process, path, content, arguments)
