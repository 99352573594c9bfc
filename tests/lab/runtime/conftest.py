# SPDX-License-Identifier: Apache-2.0
"""A lab of one Linux and one Windows node, labd's runtime, and containers in it.

One labd serves all tests of a module; every test starts containers of its own.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeVar

import pytest

from hybridlab.dataplane.contract import remote_dataplane
from hybridlab.dataplane.model import (
    EndpointProgram,
    NodeRoutes,
    NodeSpec,
    PodSpec,
    PolicyUpdate,
    Tunnel,
    TunnelRoute,
)
from hybridlab.kernel.wire import Channel
from hybridlab.labd.launch import LabdSettings, launch
from hybridlab.runtime.descriptors import RemoteStreams, remote_runtime
from hybridlab.runtime.model import (
    OS,
    ContainerExit,
    ContainerSpec,
    ExecResult,
    ExecSpec,
    PowerShell,
)
from hybridlab.runtime.streams import LazyReader

T = TypeVar("T")
SERVERCORE = "mcr.microsoft.com/windows/servercore:ltsc2022"


@dataclass(frozen=True)
class Ran:
    """The exit status and the output of a command."""

    result: ExecResult
    out: str
    err: str

    @property
    def code(self) -> int | None:
        return self.result.exit_code


class Lab:
    """Containers by short names, each in its own pod unless stated otherwise."""

    def __init__(self, runner: asyncio.Runner, channel: Channel) -> None:
        self.within = 30.0
        self.runner = runner
        self.channel = channel
        self.plane = remote_dataplane(channel)
        self.streams = RemoteStreams(channel)
        self.runtime = remote_runtime(channel, self.streams)
        self.exits: dict[str, ContainerExit] = {}
        self.pods: dict[str, PodSpec] = {}
        self._numbers = count(1)
        self._changed = asyncio.Event()
        self.runtime.on_exit(self._exited)

    def _exited(self, ended: ContainerExit) -> None:
        self.exits[ended.container] = ended
        self._changed.set()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(self.within):
                return await work

        return self.runner.run(bounded())

    async def build(self) -> None:
        blocks = {}
        for number, (name, system) in enumerate((("l1", "linux"), ("w1", "windows")), start=1):
            tunnel: dict[str, Any] = {
                "tunnel_address": f"192.168.{number}.1",
                "tunnel_mac": f"66:00:00:00:00:0{number}",
            }
            vxlan = Tunnel(
                device="vxlan.calico", identifier=4096, port=4789, mtu=1450,
                address=tunnel["tunnel_address"], mac=tunnel["tunnel_mac"],
            )  # fmt: skip
            spec = NodeSpec(
                name=name,
                os=system,  # type: ignore[arg-type]
                address=f"10.0.0.{10 + number}",
                prefix_length=24,
                tunnel=vxlan,
            )
            await self.plane.add_node(spec)
            blocks[name] = TunnelRoute(
                cidr=f"192.168.{number}.0/24", node_address=spec.address, **tunnel
            )
        for name, own in blocks.items():
            remote = tuple(block for block in blocks.values() if block is not own)
            routes = NodeRoutes(
                own_blocks=(own.cidr,), remote_blocks=remote, pools=("192.168.0.0/16",)
            )
            await self.plane.set_routes(name, routes)

    async def pod(
        self, name: str, node: str, nameserver: str = "10.96.0.10", **changed: Any
    ) -> PodSpec:
        number = next(self._numbers)
        spec = PodSpec(
            id=f"uid-{number}",
            node=node,
            name=name,
            namespace="demo",
            address=f"192.168.{1 if node == 'l1' else 2}.{10 + number}",
            hostname=name,
            nameservers=(nameserver,),
            searches=("demo.svc.cluster.local", "svc.cluster.local", "cluster.local"),
        )
        spec = replace(spec, **changed)
        await self.plane.add_pod(spec)
        await self.plane.update_policy(node, PolicyUpdate(endpoints={spec.id: EndpointProgram()}))
        self.pods[name] = spec
        return spec

    async def start_as(self, name: str, image: str, system: OS) -> str:
        """Start an image that exists for both systems."""
        return await self.started(name, image, system=system)

    async def started(self, name: str, image: str, **more: Any) -> str:
        windows = "windows" in image or "porter" in image
        pod = self.pods.get(more.pop("pod", name)) or await self.pod(
            name, more.pop("node", "w1" if windows else "l1"), more.pop("nameserver", "10.96.0.10")
        )
        identity = f"{name}-{next(self._numbers)}"
        spec = ContainerSpec(
            id=identity,
            pod=pod.id,
            name=name,
            os=more.pop("system", "windows" if windows else "linux"),
            image=image,
            **more,
        )
        await self.runtime.start(spec)
        return identity

    def start(self, name: str, image: str, **more: Any) -> str:
        """Start a container in a new pod (or in ``pod``) and return its id."""
        return self.run(self.started(name, image, **more))

    def address(self, name: str) -> str:
        address = self.pods[name].address
        assert address is not None
        return address

    async def execute(
        self, container: str, *argv: str, stdin: bytes | None = None, tty: bool = False
    ) -> Ran:
        """Run a command as a kubelet does: by pipes whose far ends are passed to labd."""
        pipes = [os.pipe() for _ in range(2)]
        given = os.pipe() if stdin is not None else None
        readers = [LazyReader(read) for read, _ in pipes]
        call = asyncio.create_task(
            self.runtime.exec(
                ExecSpec(container=container, argv=argv, tty=tty),
                stdin=given[0] if given else None,
                stdout=pipes[0][1],
                stderr=pipes[1][1],
            )
        )
        await asyncio.sleep(0)
        for _, write in pipes:
            os.close(write)
        if given and stdin is not None:
            os.close(given[0])
            # a command that reads no input has already ended
            with contextlib.suppress(BrokenPipeError):
                os.write(given[1], stdin)
            os.close(given[1])
        try:
            texts = await asyncio.gather(*(reader.read() for reader in readers))
            return Ran(await call, *(text.decode() for text in texts))
        finally:
            call.cancel()
            for reader, (read, _) in zip(readers, pipes, strict=True):
                reader.stop()
                os.close(read)

    def exec(
        self, container: str, *argv: str, stdin: bytes | None = None, tty: bool = False
    ) -> Ran:
        return self.run(self.execute(container, *argv, stdin=stdin, tty=tty))

    async def _log(self, container: str, follow: bool) -> str:
        return "".join(
            [line.decode() async for _, line in self.runtime.logs(container, follow=follow)]
        )

    def log(self, container: str, *, follow: bool = False) -> str:
        return self.run(self._log(container, follow))

    def ended(self, container: str) -> ContainerExit:
        """Wait until the container has ended."""

        async def wait() -> ContainerExit:
            while container not in self.exits:
                self._changed.clear()
                await self._changed.wait()
            return self.exits[container]

        return self.run(wait())


def content(text: str) -> str:
    """Return a mounted file's content in the form that the runtime takes."""
    return base64.b64encode(text.encode()).decode()


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    yield from labs(stop_grace_max_ms=200)


@pytest.fixture(scope="module")
def patient_lab() -> Iterator[Lab]:
    """Run a lab whose containers get all the time to end that they are given."""
    yield from labs()


def labs(powershell: PowerShell | None = None, **applet_settings: float) -> Iterator[Lab]:
    with asyncio.Runner() as runner:
        settings = LabdSettings(applet_settings={**applet_settings}, powershell=powershell)
        labd = launch(settings)
        channel = runner.run(labd.connect())
        made = Lab(runner, channel)
        channel.on_event = made.streams.event
        runner.run(made.build())
        yield made
        runner.run(labd.close())
