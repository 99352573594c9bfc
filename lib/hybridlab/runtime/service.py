"""The container runtime inside labd: the ``runtime.*`` calls of the socket, over all containers of the lab."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any

from hybridlab.kernel.reaper import Reaper
from hybridlab.kernel.sandbox import Sandboxes
from hybridlab.kernel.wire import Handler, Refused, from_json, to_json
from hybridlab.runtime import images, probes
from hybridlab.runtime.applet import Applet, Host
from hybridlab.runtime.applets import registry
from hybridlab.runtime.applets.coredns import Resolver
from hybridlab.runtime.container import Container, Streams, Surroundings
from hybridlab.runtime.model import ContainerExit, ContainerSpec, ExecResult, ExecSpec, ProbeResult, ProbeSpec
from hybridlab.runtime.net import SandboxNet
from hybridlab.runtime.programs import ProgramHosts
from hybridlab.runtime.streams import FdOutput

EXIT_EVENT = "runtime.exit"
"""Event with a :class:`ContainerExit`."""

_MAX_GRACE_MS = 1000
"""Default of the setting ``stop_grace_max_ms``: nobody wants to wait 30 s for a shell that ignores SIGTERM as pid 1."""


class RuntimeService:
    """All containers of one lab."""

    def __init__(
        self,
        *,
        sandboxes: Sandboxes,
        emit: Callable[[str, object], None],
        reaper: Reaper,
        applet_settings: Mapping[str, float | str | int] | None = None,
        servers: Mapping[str, Resolver | None] | None = None,
        windows_applets: Mapping[str, Applet] | None = None,
        host_of: Callable[[str], Host] | None = None,
    ) -> None:
        """``host_of`` gives HostProcess containers the machine around them, by their node's name."""
        self._sandboxes = sandboxes
        self._emit = emit
        self._settings = dict(applet_settings or {})
        self._linux = registry.linux((servers or {}).get("coredns"))
        self._windows = registry.windows(windows_applets)
        self._hosts = ProgramHosts(reaper)
        self._host_of = host_of
        self._containers: dict[str, Container] = {}
        self._volumes: dict[tuple[str, str], dict[str, bytes]] = {}

    def handlers(self) -> dict[str, Handler]:
        """Method name to handler, for the channel."""
        return {
            "runtime.start": _without_fds(self._start),
            "runtime.stop": _without_fds(self._stop),
            "runtime.remove": _without_fds(self._remove),
            "runtime.update_files": _without_fds(self._update_files),
            "runtime.append_log": _without_fds(self._append_log),
            "runtime.probe": _without_fds(self._probe),
            "runtime.exec": self._exec,
            "runtime.logs": self._logs,
        }

    async def close(self) -> None:
        """Stop every container, at once."""
        await asyncio.gather(*(container.stop(0) for container in self._containers.values()))
        self._hosts.close()

    def _get(self, container: str) -> Container:
        try:
            return self._containers[container]
        except KeyError:
            raise Refused(f"no container {container}: never started, or removed") from None

    async def _start(self, params: Any) -> None:
        spec = from_json(ContainerSpec, params["spec"])
        found = images.find(spec.image)
        if found is None:
            raise Refused(f"image {spec.image} is not in the lab's image table")
        if spec.os not in found.image.os:
            raise Refused(f"image {spec.image} has no {spec.os} variant")
        if spec.id in self._containers:
            raise Refused(f"container {spec.id} exists already")
        sandbox = self._sandboxes.get(spec.pod)
        around = Surroundings(
            net=SandboxNet(sandbox),
            netns=sandbox.netns,
            applets=self._linux if spec.os == "linux" else self._windows,
            settings=self._settings,
            hosts=self._hosts,
            volumes=lambda key: self._volumes.setdefault((spec.pod, key), {}),
            host=self._host_of(sandbox.node) if self._host_of is not None and spec.host_process else None,
        )
        container = Container(spec, found, around, self._exited)
        self._containers[spec.id] = container
        try:
            await container.start()
        except BaseException:
            del self._containers[spec.id]
            raise

    def _exited(self, event: ContainerExit) -> None:
        self._emit(EXIT_EVENT, event)

    async def _stop(self, params: Any) -> None:
        container = self._containers.get(params["container"])
        if container is not None:
            longest = float(self._settings.get("stop_grace_max_ms", _MAX_GRACE_MS)) / 1000
            await container.stop(min(float(params["grace"]), longest))

    async def _remove(self, params: Any) -> None:
        container = self._containers.get(params["container"])
        if container is None:
            return
        if container.running:
            raise Refused(f"container {params['container']} is running: stop it first")
        del self._containers[params["container"]]
        pod = container.spec.pod
        if not any(other.spec.pod == pod for other in self._containers.values()):
            self._volumes = {key: volume for key, volume in self._volumes.items() if key[0] != pod}
            self._hosts.forget_pod(pod)

    async def _update_files(self, params: Any) -> None:
        self._get(params["container"]).update_files(params["files"])

    async def _append_log(self, params: Any) -> None:
        self._get(params["container"]).logs.append(str(params["line"]).encode())

    async def _probe(self, params: Any) -> ProbeResult:
        spec = from_json(ProbeSpec, params["spec"])
        if spec.kind == "exec":
            return await self._probe_exec(spec)
        return await probes.network(SandboxNet(self._sandboxes.node(spec.node)), spec)

    async def _probe_exec(self, spec: ProbeSpec) -> ProbeResult:
        container = self._get(spec.container)
        read, write = os.pipe2(os.O_CLOEXEC)
        output = probes.Collector(read)
        try:
            async with asyncio.timeout(spec.timeout):
                result = await container.exec(spec.argv, Streams(None, write, write))
        except TimeoutError:
            return ProbeResult(ok=False, message=f"command {' '.join(spec.argv)!r} timed out after {spec.timeout:g}s")
        finally:
            os.close(write)
            text = await output.finish()
        if result.start_error is not None:
            return ProbeResult(ok=False, message=result.start_error)
        return ProbeResult(ok=result.exit_code == 0, message=text)

    async def _exec(self, params: Any, fds: list[int]) -> ExecResult:
        try:
            spec = from_json(ExecSpec, params["spec"])
            stdin = fds[0] if params["stdin"] else None
            stdout, stderr = fds[-2:]
            container = self._get(spec.container)
            return await container.exec(spec.argv, Streams(stdin, stdout, stderr), tty=spec.tty)
        finally:
            _close(fds)

    async def _logs(self, params: Any, fds: list[int]) -> None:
        """Write ``<seconds> <line>`` for every line to the descriptor; ends with the log or with the reader."""
        try:
            container = self._get(params["container"])
            output = FdOutput(fds[0])
            async for when, line in container.logs.read(follow=bool(params["follow"])):
                await output.write(f"{when:.9f} ".encode() + line)
        except BrokenPipeError:
            pass
        finally:
            _close(fds)


def _close(fds: list[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)


def _without_fds(handler: Callable[[Any], Any]) -> Handler:
    async def run(params: Any, fds: list[int]) -> object:
        _close(fds)
        result: object = await handler(params)
        return to_json(result) if result is not None else None

    return run
