# SPDX-License-Identifier: Apache-2.0
"""Run a mounted probe program: the effect of ``powershell -File C:\\probe\\...`` for files with the protocol line."""

from collections.abc import Sequence

from hybridlab.probe_programs import recorded
from hybridlab.probe_programs.agent import Agent, Lines
from hybridlab.probe_programs.echo_server import EchoServer
from hybridlab.probe_programs.stream_agent import StreamAgent
from hybridlab.runtime.applet import Process

AGENTS: dict[str, type[Lines]] = {"matrix-agent.ps1": Agent, "stream-agent.ps1": StreamAgent}


async def run(process: Process, path: str, content: bytes, arguments: Sequence[str]) -> int:
    """Behave as the recorded program does; for any other file or argument print ``not emulated``
    and return 1."""
    try:
        program = recorded.identify(path, content)
        options = _options(arguments)
        if program.name in AGENTS:
            _known(options, {"-beatms", "-idlems"})
            beat, idle = (
                float(options.get(name, default)) / 1000
                for name, default in (("-beatms", 5e3), ("-idlems", 12e4))
            )
            return await AGENTS[program.name](process, program, beat=beat, idle=idle).run()
        _known(options, {"-ports", "-page"})
        ports = [int(port) for port in options.get("-ports", "8080").split(",")]
        return await EchoServer(process, program, ports=ports, page="-page" in options).run()
    except (recorded.NotRecorded, ValueError) as error:
        await process.stderr.write(f"not emulated: {error}\n".encode())
        return 1


def _options(arguments: Sequence[str]) -> dict[str, str]:
    """Return the options ``-Name value`` and switches; names are case-insensitive as in
    PowerShell."""
    found: dict[str, str] = {}
    name = ""
    for argument in arguments:
        if argument.startswith("-"):
            name = argument.lower()
            found[name] = ""
        elif name:
            found[name] = argument
        else:
            raise ValueError(f"argument {argument!r} of a probe program")
    return found


def _known(options: dict[str, str], names: set[str]) -> None:
    unknown = set(options) - names
    if unknown:
        raise ValueError(f"option {', '.join(sorted(unknown))} of a probe program")
