"""``contract.Runtime`` for the cluster's side: every call goes over the channel to labd's ``runtime.service``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

from hybridlab.kernel.wire import CallFailed, Channel, from_json
from hybridlab.runtime import images
from hybridlab.runtime.contract import RuntimeRefused
from hybridlab.runtime.model import (
    ContainerExit,
    ContainerSpec,
    ExecResult,
    ExecSpec,
    ImageFacts,
    ProbeResult,
    ProbeSpec,
)
from hybridlab.runtime.streams import LazyReader

EXIT_EVENT = "runtime.exit"


class RemoteRuntime:
    """Containers of one lab; whoever owns the channel's ``on_event`` passes events to :meth:`event`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._exits: list[Callable[[ContainerExit], None]] = []

    def event(self, name: str, params: Any) -> bool:
        """Take an event of the channel; False when it is none of the runtime's."""
        if name != EXIT_EVENT:
            return False
        ended = from_json(ContainerExit, params)
        for callback in list(self._exits):
            callback(ended)
        return True

    def on_exit(self, callback: Callable[[ContainerExit], None]) -> None:
        """Call ``callback`` for every container that ends from now on."""
        self._exits.append(callback)

    def image(self, reference: str) -> ImageFacts:
        """The image table's facts; no call is made."""
        return images.facts(reference)

    async def start(self, spec: ContainerSpec) -> None:
        """As ``Runtime.start``."""
        await self._call("start", {"spec": spec})

    async def stop(self, container: str, *, grace: float) -> None:
        """As ``Runtime.stop``."""
        await self._call("stop", {"container": container, "grace": grace})

    async def remove(self, container: str) -> None:
        """As ``Runtime.remove``."""
        await self._call("remove", {"container": container})

    async def update_files(self, container: str, files: dict[str, str]) -> None:
        """As ``Runtime.update_files``."""
        await self._call("update_files", {"container": container, "files": files})

    async def append_log(self, container: str, line: str) -> None:
        """As ``Runtime.append_log``."""
        await self._call("append_log", {"container": container, "line": line})

    async def exec(self, spec: ExecSpec, *, stdin: int | None, stdout: int, stderr: int) -> ExecResult:
        """As ``Runtime.exec``; descriptors are copied before this first suspends, the caller may then close its own."""
        fds = (stdout, stderr) if stdin is None else (stdin, stdout, stderr)
        result = await self._call("exec", {"spec": spec, "stdin": stdin is not None}, fds)
        return from_json(ExecResult, result)

    async def probe(self, spec: ProbeSpec) -> ProbeResult:
        """As ``Runtime.probe``."""
        return from_json(ProbeResult, await self._call("probe", {"spec": spec}))

    async def logs(self, container: str, *, follow: bool) -> AsyncIterator[tuple[float, bytes]]:
        """As ``Runtime.logs``; raises RuntimeRefused for an unknown container."""
        read, write = os.pipe2(os.O_CLOEXEC)
        reader = LazyReader(read)
        call = asyncio.create_task(self._call("logs", {"container": container, "follow": follow}, (write,)))
        await asyncio.sleep(0)  # the call is on the wire, with a copy of the descriptor
        os.close(write)
        try:
            while line := await reader.readline():
                when, _, text = line.partition(b" ")
                yield float(when), text
            await call
        finally:
            call.cancel()
            reader.stop()
            os.close(read)

    async def _call(self, method: str, params: object, fds: tuple[int, ...] = ()) -> Any:
        try:
            return await self._channel.call(f"runtime.{method}", params, fds=fds)
        except CallFailed as error:
            raise RuntimeRefused(str(error)) from error
