# SPDX-License-Identifier: Apache-2.0
"""The two calls of the container runtime that carry descriptors, and the runtime's only event, at
both ends of the channel.

The descriptors of a command are its streams themselves; a log arrives through a pipe, so that a
slow reader delays no other call.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from hybridlab.kernel.rpc import client, refused_as
from hybridlab.kernel.shapes import from_json
from hybridlab.kernel.wire import Channel
from hybridlab.runtime import images
from hybridlab.runtime.contract import ContainerStreams, Runtime, RuntimeRefused
from hybridlab.runtime.model import ContainerExit, ExecResult, ExecSpec, ImageFacts
from hybridlab.runtime.streams import FdOutput, LazyReader

EXEC = ContainerStreams.exec.__qualname__
LOGS = ContainerStreams.logs.__qualname__
EXIT_EVENT = "Containers.exit"
"""The event that carries a :class:`ContainerExit`."""


class RemoteStreams:
    """The runtime at the other end; implements ``ContainerStreams`` and ``ContainerNews``.

    The owner of the channel's ``on_event`` passes events to :meth:`event`.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._exits: list[Callable[[ContainerExit], None]] = []

    def event(self, name: str, params: Any) -> None:
        """Handle an event of the channel; ignore events that are not the runtime's."""
        if name == EXIT_EVENT:
            ended = from_json(ContainerExit, params)
            for callback in list(self._exits):
                callback(ended)

    def on_exit(self, callback: Callable[[ContainerExit], None]) -> None:
        self._exits.append(callback)

    def image(self, reference: str) -> ImageFacts:
        return images.facts(reference)

    async def exec(
        self, spec: ExecSpec, *, stdin: int | None, stdout: int, stderr: int
    ) -> ExecResult:
        """Run a command, see ``Runtime.exec``. The descriptors are copied before the coroutine
        first suspends, so that the caller may then close its own copies."""
        fds = (stdout, stderr) if stdin is None else (stdin, stdout, stderr)
        with refused_as(RuntimeRefused, EXEC):
            result = await self._channel.call(
                EXEC, {"spec": spec, "stdin": stdin is not None}, fds=fds
            )
        return from_json(ExecResult, result)

    async def logs(self, container: str, *, follow: bool) -> AsyncIterator[tuple[float, bytes]]:
        """Yield a container's log, see ``Runtime.logs``; raise RuntimeRefused for an unknown
        container."""
        read, write = os.pipe2(os.O_CLOEXEC)
        reader = LazyReader(read)
        request = {"container": container, "follow": follow}
        call = asyncio.create_task(self._channel.call(LOGS, request, fds=(write,)))
        await asyncio.sleep(0)  # the call is on the wire, with a copy of the descriptor
        os.close(write)
        try:
            while line := await reader.readline():
                when, _, text = line.partition(b" ")
                yield float(when), text
            with refused_as(RuntimeRefused, LOGS):
                await call
        finally:
            call.cancel()
            reader.stop()
            os.close(read)


def remote_runtime(channel: Channel, streams: RemoteStreams) -> Runtime:
    """Return the runtime at the other end of a channel, including the calls that pass descriptors
    or events."""
    return client(Runtime, channel, RuntimeRefused, by_hand=streams)


def serve_streams(implementation: ContainerStreams, channel: Channel) -> None:
    """Answer the calls of :class:`RemoteStreams` at the other end."""

    async def run(params: Any, fds: list[int]) -> ExecResult:
        with _closing(fds):
            spec = from_json(ExecSpec, params["spec"])
            stdin = fds[0] if params["stdin"] else None
            stdout, stderr = fds[-2:]
            return await implementation.exec(spec, stdin=stdin, stdout=stdout, stderr=stderr)

    async def read(params: Any, fds: list[int]) -> None:
        """Write ``<seconds> <line>`` to the descriptor for every line; end when the log ends or the
        reader closes."""
        with _closing(fds), contextlib.suppress(BrokenPipeError):
            output = FdOutput(fds[0])
            async for when, line in implementation.logs(
                params["container"], follow=bool(params["follow"])
            ):
                await output.write(f"{when:.9f} ".encode() + line)

    channel.register(EXEC, run)
    channel.register(LOGS, read)


@contextlib.contextmanager
def _closing(fds: list[int]) -> Iterator[None]:
    try:
        yield
    finally:
        for fd in fds:
            with contextlib.suppress(OSError):
                os.close(fd)
