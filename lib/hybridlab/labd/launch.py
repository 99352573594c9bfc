# SPDX-License-Identifier: Apache-2.0
"""The start of labd from the outside, before any slow import, and the later connection in asyncio.

::

    labd = launch(LabdSettings())         # single-threaded, no event loop needed, a few ms; then import what you like
    ...
    channel = await labd.connect()        # in asyncio; raises LabdFailed with what this machine lacks
    ...
    await labd.close()                    # everything inside is gone when this returns

A fresh interpreter is started (``python -m hybridlab.labd``) instead of a bare fork. It costs 10 ms
on the other core; labd begins without the caller's memory, signal handlers and threads, and has its
own name in ps.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridlab.kernel.lack import Lack
from hybridlab.runtime.model import PowerShell

if TYPE_CHECKING:  # asyncio costs 40 ms and is imported while labd already starts
    import asyncio

    from hybridlab.kernel.wire import Channel

READY = "labd.ready"
FAILED = "labd.failed"
"""The first event of labd if it could not start."""


@dataclass(frozen=True, kw_only=True)
class LabdSettings:
    """The settings of labd at its start."""

    applet_settings: dict[str, float | str | int] = field(default_factory=dict)
    """Settings that are passed to every applet: ``powershell_start_ms`` and the like."""
    nodes: int = 0
    """The number of nodes that the lab will have."""
    powershell: PowerShell | None = None
    """The program that runs the probe programs of Windows pods; None: the stand-in."""
    services: tuple[str, ...] = ("dataplane", "runtime")
    """The services of labd; a test of one service leaves out the other service."""


class LabdFailed(Exception):
    """labd could not start; ``lacks`` lists missing features of this machine, if these are the
    reason.
    """

    def __init__(self, message: str, lacks: tuple[Lack, ...] = ()) -> None:
        super().__init__(message)
        self.lacks = lacks


class Labd:
    """A labd that was started: the pid of its waiter (the process that waits for pid 1 outside the
    pid namespace), and the channel once it is connected."""

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self.pid = pid
        """The waiter's pid, in the caller's pid namespace; killing the waiter kills the lab."""
        self._socket = sock
        self._channel: Channel | None = None

    @property
    def channel(self) -> Channel:
        """Return the channel. Raise RuntimeError before :meth:`connect`."""
        if self._channel is None:
            raise RuntimeError("Labd.connect() has not been awaited yet")
        return self._channel

    async def connect(self, on_event: Callable[[str, Any], None] | None = None) -> Channel:
        """Wait until labd is ready and return the channel; raise :class:`LabdFailed`."""
        import asyncio

        from hybridlab.kernel.wire import Channel

        hello: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        channel = Channel(self._socket, peer="labd")
        self._channel = channel

        def first(event: str, params: Any) -> None:
            channel.on_event = on_event
            hello.set_result((event, params))

        channel.on_event = first
        ended: asyncio.Future[Any] = asyncio.ensure_future(channel.wait_closed())
        await asyncio.wait({hello, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not hello.done():
            status = await self._collect()
            raise LabdFailed(f"labd ended before it was ready (exit status {status}); see its log")
        event, params = hello.result()
        if event == FAILED:
            lacks = tuple(Lack(**item) for item in params["lacks"])
            await self.close()
            raise LabdFailed("this machine cannot run a lab: " + "; ".join(map(str, lacks)), lacks)
        return channel

    async def close(self, *, patience: float = 5.0) -> None:
        """End labd and return once its waiter has ended; after ``patience`` seconds, kill the
        waiter."""
        import asyncio

        if self._channel is not None:
            self._channel.close()
        else:
            self._socket.close()
        try:
            await asyncio.wait_for(self._collect(), patience)
        except TimeoutError:
            self.kill()
            await self._collect()

    def kill(self) -> None:
        """Send SIGKILL to the waiter; the kernel then ends everything inside the lab."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    async def _collect(self) -> int:
        """Return the waiter's exit status after its end; a negative signal number if it was
        killed.
        """
        import asyncio

        loop = asyncio.get_running_loop()
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return 0
        ended: asyncio.Future[None] = loop.create_future()

        def readable() -> None:
            if not ended.done():
                ended.set_result(None)

        loop.add_reader(pidfd, readable)
        try:
            await ended
            _, status = os.waitpid(self.pid, 0)  # noqa: ASYNC222 - it has ended: the pidfd said so
            return os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            return 0
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)


def launch(settings: LabdSettings, *, log_fd: int = 2) -> Labd:
    """Start labd and return at once; its messages go to ``log_fd``.

    Call it from the main thread: the kernel kills labd when the *thread* that started it ends.
    """
    ours, theirs = socket.socketpair()
    library = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [library, os.environ.get("PYTHONPATH")]))
    environment = dict(os.environ, PYTHONPATH=path)
    arguments = [
        sys.executable,
        "-P",
        "-m",
        "hybridlab.labd",
        str(theirs.fileno()),
        str(os.getpid()),
        json.dumps(asdict(settings)),
    ]
    os.set_inheritable(theirs.fileno(), True)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        pid = os.posix_spawn(
            sys.executable,
            arguments,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, log_fd, 2),
                (os.POSIX_SPAWN_DUP2, log_fd, 1),
                (os.POSIX_SPAWN_DUP2, null, 0),
            ],
            setsid=True,  # a Ctrl-C at the terminal is for the caller, which then ends labd in good order
        )
    finally:
        os.close(null)
        theirs.close()
    return Labd(pid, ours)
