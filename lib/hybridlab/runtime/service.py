# SPDX-License-Identifier: Apache-2.0
"""The container runtime inside labd: implements ``runtime.contract`` over all containers of the lab."""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hybridlab.kernel import sysctl
from hybridlab.kernel.lack import Lack
from hybridlab.kernel.reaper import Reaper
from hybridlab.kernel.sandbox import Sandbox, Sandboxes
from hybridlab.kernel.wire import Refused
from hybridlab.runtime import images, probes, real_powershell
from hybridlab.runtime.applet import Applet, Host
from hybridlab.runtime.applets import dns, registry
from hybridlab.runtime.applets.coredns import ServeNames
from hybridlab.runtime.container import Container, Streams, Surroundings
from hybridlab.runtime.model import (
    ContainerExit,
    ContainerSpec,
    ExecResult,
    ExecSpec,
    ProbeResult,
    ProbeSpec,
)
from hybridlab.runtime.programs import ProgramHosts
from hybridlab.runtime.real_powershell import RealWindows


@dataclass(frozen=True)
class Windows:
    """The parts that run programs in Windows containers."""

    applets: Mapping[str, Applet] = field(default_factory=dict)
    real: RealWindows | None = None
    """The PowerShell that runs the probe programs instead of the emulation."""


class RuntimeService:
    """All containers of a lab."""

    def __init__(
        self,
        *,
        sandboxes: Sandboxes,
        on_exit: Callable[[ContainerExit], None],
        reaper: Reaper,
        applet_settings: Mapping[str, float | str | int] | None = None,
        servers: Mapping[str, ServeNames | None] | None = None,
        windows: Windows | None = None,
        host_of: Callable[[str], Host] | None = None,
    ) -> None:
        """Set up the service. ``on_exit`` is called for every container that ends. ``host_of`` maps
        a node's name to its host; it is called for HostProcess containers and for every container
        on a Linux node."""
        self._sandboxes = sandboxes
        self._on_exit = on_exit
        self._settings = dict(applet_settings or {})
        self._linux = registry.linux((servers or {}).get("coredns"))
        windows = windows or Windows()
        self._windows = registry.windows(windows.applets)
        self._real = windows.real
        self._hosts = ProgramHosts(reaper, windows.real.powershell if windows.real else None)
        self._host_of = host_of
        self._containers: dict[str, Container] = {}
        self._volumes: dict[str, dict[str, bytes]] = {}

    def _get(self, container: str) -> Container:
        try:
            return self._containers[container]
        except KeyError:
            raise Refused(
                f"there is no container {container}: it was never started, or it was removed"
            ) from None

    async def start(self, spec: ContainerSpec) -> None:
        found = images.find(spec.image)
        if found is None:
            raise Refused(f"image {spec.image} is not in the lab's image table")
        if spec.os not in found.image.os:
            raise Refused(f"image {spec.image} has no {spec.os} variant")
        if spec.id in self._containers:
            raise Refused(f"container {spec.id} already exists")
        sandbox = self._sandboxes.get(spec.pod)
        if spec.os == "linux" and not spec.host_network:
            with sandbox.entered():
                sysctl.write("net/ipv4/ip_unprivileged_port_start", spec.port_start)
        around = Surroundings(
            net=_SandboxNet(sandbox, spec.lowest_port, may_ping=spec.may_ping),
            netns=sandbox.netns,
            applets=self._linux if spec.os == "linux" else self._windows,
            settings=self._settings,
            hosts=self._hosts,
            volumes=lambda key: self._volumes.setdefault(spec.volume(key), {}),
            host=self._host_of(sandbox.node)
            if self._host_of and (spec.host_process or spec.os == "linux")
            else None,
            windows=self._real if spec.os == "windows" and not spec.host_process else None,
        )
        container = Container(spec, found, around, self._on_exit)
        self._containers[spec.id] = container
        try:
            await container.start()
        except BaseException:
            del self._containers[spec.id]
            raise

    async def try_powershell(self) -> Lack | None:
        """Return the reason why the lab's real PowerShell cannot run in a container; None if it
        can."""
        return await real_powershell.trial(self._hosts, self._real) if self._real else None

    async def stop(self, container: str, *, grace: float) -> None:
        stopped = self._containers.get(container)
        if stopped is not None:
            longest = float(self._settings.get("stop_grace_max_ms", grace * 1000)) / 1000
            await stopped.stop(min(grace, longest))

    async def remove(self, container: str) -> None:
        removed = self._containers.get(container)
        if removed is None:
            return
        if removed.running:
            raise Refused(f"container {container} is running: stop it first")
        del self._containers[container]
        pod = removed.spec.pod
        if not any(other.spec.pod == pod for other in self._containers.values()):
            self._volumes = {
                name: volume
                for name, volume in self._volumes.items()
                if not name.startswith(f"{pod}/")
            }
            self._hosts.forget_pod(pod)

    async def update_files(self, container: str, files: dict[str, str]) -> None:
        self._get(container).update_files(files)

    async def append_log(self, container: str, line: str) -> None:
        self._get(container).logs.append(line.encode())

    async def probe(self, spec: ProbeSpec) -> ProbeResult:
        if spec.kind == "exec":
            return await self._probe_exec(spec)
        return await probes.network(_SandboxNet(self._sandboxes.node(spec.node)), spec)

    async def _probe_exec(self, spec: ProbeSpec) -> ProbeResult:
        container = self._get(spec.container)
        read, write = os.pipe2(os.O_CLOEXEC)
        output = probes.Collector(read)
        try:
            async with asyncio.timeout(spec.timeout):
                result = await container.exec(spec.argv, Streams(None, write, write))
        except TimeoutError:
            return ProbeResult(
                ok=False,
                message=f"command {' '.join(spec.argv)!r} timed out after {spec.timeout:g}s",
            )
        finally:
            os.close(write)
            text = await output.finish()
        if result.start_error is not None:
            return ProbeResult(ok=False, message=result.start_error)
        return ProbeResult(ok=result.exit_code == 0, message=text)

    async def exec(
        self, spec: ExecSpec, *, stdin: int | None, stdout: int, stderr: int
    ) -> ExecResult:
        return await self._get(spec.container).exec(
            spec.argv, Streams(stdin, stdout, stderr), tty=spec.tty
        )

    def logs(self, container: str, *, follow: bool) -> AsyncIterator[tuple[float, bytes]]:
        return self._get(container).logs.read(follow=follow)


class _HighPorts(socket.socket):
    """A socket that refuses to bind to ports below the lowest allowed port."""

    def __init__(self, made: socket.socket, lowest: int) -> None:
        super().__init__(made.family, made.type, made.proto, made.detach())
        self._lowest = lowest

    def bind(self, address: Any) -> None:
        """Bind as the kernel does for the pod. Port 0 means any free port."""
        if 0 < address[1] < self._lowest:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        super().bind(address)


class _SandboxNet:
    """Sockets and resolver of a kernel sandbox; implements ``applet.Net``."""

    def __init__(self, sandbox: Sandbox, lowest_port: int = 0, *, may_ping: bool = True) -> None:
        self._sandbox = sandbox
        self._lowest_port = lowest_port
        self._may_ping = may_ping
        self.hostname = sandbox.hostname or sandbox.name
        self.address = sandbox.address
        self.nameservers: Sequence[str] = sandbox.nameservers
        self.searches: Sequence[str] = sandbox.searches
        self.resolver_options: Sequence[str] = sandbox.resolver_options
        self.etc_hosts = sandbox.etc_hosts

    def socket(
        self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, proto: int = 0
    ) -> socket.socket:
        """Create a socket. First refuse what the kernel would refuse to the container, since labd
        itself has every capability."""
        if kind == socket.SOCK_RAW and not self._may_ping:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        made = self._sandbox.socket(family, kind, proto)
        return _HighPorts(made, self._lowest_port) if self._lowest_port else made

    async def resolve(self, name: str, *, timeout: float = 5.0) -> list[str]:  # noqa: ASYNC109 - the contract's name
        return await dns.resolve(self, name, limit=timeout)
