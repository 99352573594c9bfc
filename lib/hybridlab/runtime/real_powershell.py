# SPDX-License-Identifier: Apache-2.0
"""A real PowerShell in Windows containers: its path, its environment, and how it is started.

It runs the probe programs of ``manifests/probes`` as processes on Linux; everything else of Windows
remains emulated.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from hybridlab.kernel import namespaces
from hybridlab.kernel.errors import KernelError
from hybridlab.kernel.lack import Lack
from hybridlab.runtime import images
from hybridlab.runtime.applet import Files, Output
from hybridlab.runtime.files import MemoryFiles
from hybridlab.runtime.model import ContainerSpec, PowerShell
from hybridlab.runtime.programs import ProgramHost, ProgramHosts
from hybridlab.runtime.rootfs import DOTNET, POWERSHELL

START_BOUND = 20.0
"""The maximum duration of a start, in seconds, which ends with the program's first line."""
_TRIAL_BOUND = 40.0
"""The maximum duration of the trial, in seconds: a program that prints a line takes 1 s on idle
cores, and 10 s at a load average of 10 per core."""
_OPTIONS = ("-NoLogo", "-NoProfile", "-NonInteractive")
_ENVIRONMENT = {
    "PATH": "/usr/bin",
    "HOME": "/root",
    "TMPDIR": "/tmp",
    "DOTNET_ROOT": DOTNET,
    "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1",  # the container has no ICU
    "DOTNET_EnableDiagnostics": "0",
    "DOTNET_MULTILEVEL_LOOKUP": "0",
    "DOTNET_TieredPGO": "0",  # no program here runs long enough to gain from profiling
    "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
    "POWERSHELL_TELEMETRY_OPTOUT": "1",
    "POWERSHELL_UPDATECHECK": "Off",
    "PSModulePath": f"{POWERSHELL}/Modules",
}
_NOT_THE_PODS = ("DOTNET_", "COMPLUS_", "CORECLR_", "POWERSHELL_", "PSMODULE", "LD_")
"""Prefixes of variables that a pod must not set: they would change the .NET of the lab, which is
not the .NET of Windows."""
_READ_SIZE = 65536


def command(powershell: PowerShell, words: Sequence[str]) -> tuple[str, ...]:
    """Return the command line that starts PowerShell in a container."""
    begin: tuple[str, ...] = (f"{DOTNET}/dotnet", f"{POWERSHELL}/pwsh.dll")
    if powershell.dotnet == powershell.home:
        begin = (f"{POWERSHELL}/pwsh",)
    return (*begin, *_OPTIONS, *words)


def environment(pods: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a PowerShell in a container with the variables ``pods``."""
    return {
        name: value for name, value in pods.items() if not name.upper().startswith(_NOT_THE_PODS)
    } | _ENVIRONMENT


class PowerShells:
    """All PowerShells of a lab; at most one per core starts at the same time."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(len(os.sched_getaffinity(0)))

    @contextlib.asynccontextmanager
    async def _start(self) -> AsyncIterator[Callable[[], None]]:
        """Wait for a turn to start a PowerShell. The turn ends when the yielded function is called,
        or after START_BOUND seconds."""
        await self._free.acquire()
        held = [self._free]

        def end() -> None:
            if held:
                held.pop().release()

        timer = asyncio.get_running_loop().call_later(START_BOUND, end)
        try:
            yield end
        finally:
            timer.cancel()
            end()

    async def run(
        self,
        host: ProgramHost,
        command_line: tuple[str, ...],
        env: Mapping[str, str],
        stdin: int | None,
        outputs: tuple[Output, Output],
    ) -> int:
        """Run a PowerShell to its end; return its exit status.  Cancellation kills it.

        Raise OSError if it cannot be started.
        """
        async with self._start() as first_line:
            out, err = (_Carried(output) for output in outputs)
            out.on_line = first_line
            carrying: list[asyncio.Task[None]] = []
            try:
                running = await host.start(command_line, env, stdin, out.writing, err.writing)
                try:
                    carrying = [asyncio.create_task(one.carry()) for one in (out, err)]
                    status = await running.wait()
                    for one in (out, err):
                        one.end()
                    await asyncio.gather(*carrying)
                finally:
                    running.kill()
            finally:
                for task in carrying:
                    task.cancel()
                await asyncio.gather(*carrying, return_exceptions=True)
                for one in (out, err):
                    one.close()
            return status


class _Carried:
    """A pipe to which a program writes; its bytes are copied to an output."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._reading, self.writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._reading, False)
        self._wake = asyncio.Event()
        self._ended = False
        self.on_line: Callable[[], None] = lambda: None
        """Called for each piece of output that contains a line's end."""

    async def carry(self) -> None:
        """Copy the program's output until the program has ended, or nobody reads its output any
        more."""
        os.close(self.writing)
        self.writing = -1
        loop = asyncio.get_running_loop()
        try:
            while data := await self._read(loop):
                if b"\n" in data:
                    self.on_line()
                await self._output.write(data)
        except BrokenPipeError:
            pass
        finally:
            loop.remove_reader(self._reading)
            os.close(self._reading)
            self._reading = -1

    async def _read(self, loop: asyncio.AbstractEventLoop) -> bytes:
        """Return the data that is available. Return nothing at the end of the pipe.

        Also return nothing once the program has ended, even if another process still holds the
        pipe.
        """
        while True:
            with contextlib.suppress(BlockingIOError):
                return os.read(self._reading, _READ_SIZE)
            if self._ended:
                return b""
            self._wake.clear()
            loop.add_reader(self._reading, self._wake.set)
            await self._wake.wait()
            loop.remove_reader(self._reading)

    def end(self) -> None:
        """Stop as soon as all output is copied: the program has ended."""
        self._ended = True
        self._wake.set()

    def close(self) -> None:
        """Close the descriptors that are open; do nothing if none is."""
        for fd in (self._reading, self.writing):
            if fd >= 0:
                os.close(fd)


FindProgram = Callable[[Sequence[str], Files], tuple[str, list[str]] | None]
"""Returns the path and arguments of the probe program that a PowerShell's command line runs; None
if it runs no probe program."""


@dataclass(frozen=True)
class RealWindows:
    """The real PowerShell of a lab, which runs the programs that ``find_program`` finds."""

    powershell: PowerShell
    find_program: FindProgram
    starts: PowerShells = field(default_factory=PowerShells)


async def trial(hosts: ProgramHosts, real: RealWindows) -> Lack | None:
    """Start a PowerShell as in a container. Return the reason why it does not run; None if it
    does."""
    try:
        async with asyncio.timeout(_TRIAL_BOUND):
            why = await _tried(hosts, real)
    except TimeoutError:
        why = f"PowerShell did not exit within {_TRIAL_BOUND:g} s"
    except (OSError, KernelError) as error:
        why = str(error)
    if not why:
        return None
    return Lack(
        what=f"start of PowerShell {real.powershell.version} ({real.powershell.home}) in a pod",
        why=" ".join(why.split())[:300],
        remedy="name another PowerShell with --powershell, or leave this option out",
    )


async def _tried(hosts: ProgramHosts, real: RealWindows) -> str:
    """Return the reason why a PowerShell did not print its version; an empty string if it did."""
    out = _Kept()
    err = _Kept()
    host = await hosts.create(
        spec=ContainerSpec(id="trial", pod="trial", name="trial", os="windows", image=""),
        image=images.table()[0],
        net=_NOWHERE,
        netns=namespaces.home_netns(),
        memory=MemoryFiles("windows"),
        run_shim=_no_shim,
        main=None,
    )
    try:
        words = ("-Command", "'version ' + $PSVersionTable.PSVersion")
        line = command(real.powershell, words)
        status = await real.starts.run(host, line, environment({}), None, (out, err))
    finally:
        await host.close()
    if (status, out.text.strip()) == (0, f"version {real.powershell.version}"):
        return ""
    return f"exit status {status}, {(err.text or out.text).strip() or 'no output'}"


class _Kept:
    """An output that stores its bytes as text."""

    text = ""

    async def write(self, data: bytes) -> None:
        """Store ``data``."""
        self.text += data.decode(errors="replace")


_NOWHERE: Any = SimpleNamespace(
    hostname="trial",
    address="127.0.0.1",
    nameservers=(),
    searches=(),
    resolver_options=(),
    etc_hosts="",
)
"""The resolver settings and names of a container that belongs to no pod."""


async def _no_shim(*_: Any) -> int:
    return 1
