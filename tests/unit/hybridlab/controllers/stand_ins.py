# SPDX-License-Identifier: Apache-2.0
"""A cluster for tests of controllers: the real API in memory, and stand-ins for everything below
the kubelets."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal

from hybridlab.api.contract import Obj
from hybridlab.api.core import Core, Settings
from hybridlab.cluster.installs.installed import Installed
from hybridlab.controllers.manager import ControlPlane
from hybridlab.controllers.settings import KubeletSettings
from hybridlab.dataplane.pod_network import PodAttachment, SandboxError
from hybridlab.networks.registry import plane_of
from hybridlab.networks.vxlan.settings import VxlanSettings
from hybridlab.profiles.model import Network, NodeGroup, Profile
from hybridlab.runtime.contract import RuntimeRefused
from hybridlab.runtime.model import (
    ContainerExit,
    ContainerSpec,
    ExecResult,
    ImageFacts,
    ProbeResult,
    ProbeSpec,
)
from tests.unit.hybridlab.builders import is_ready
from tests.unit.hybridlab.recording import RecordingDataplane

QUICK = KubeletSettings(
    back_off_first=0.02,
    back_off_last=0.1,
    sandbox_retry=0.01,
    mount_retry=0.05,
    early_probe_period=0.01,
)
WINDOWS = NodeGroup(
    name="win",
    os="windows",
    windows_build="10.0.20348.2762",
    taints=("os=windows:NoSchedule",),
    max_pods=60,
)
CLUSTER = Profile(
    name="test",
    description="one control plane, two Linux workers, one Windows worker",
    network=Network(plane=VxlanSettings()),
    nodes=(
        NodeGroup(
            name="cp",
            os="linux",
            control_plane=True,
            taints=("node-role.kubernetes.io/control-plane:NoSchedule",),
        ),
        NodeGroup(name="linux", os="linux", count=2),
        WINDOWS,
    ),
)


class FakeNetwork:
    """A network that assigns addresses in order, and refuses pods as long as ``refusals`` has
    entries."""

    def __init__(self) -> None:
        self.attached: dict[str, str] = {}
        self.refusals = 0
        self._next = 1

    async def attach(self, pod: Any, node: str) -> PodAttachment:
        if self.refusals:
            self.refusals -= 1
            raise SandboxError("no more free addresses in the assigned block")
        address = f"192.168.{self._next // 250}.{self._next % 250 + 1}"
        self._next += 1
        self.attached[pod["metadata"]["uid"]] = address
        return PodAttachment(
            address=address,
            gateway="169.254.1.1",
            mtu=1450,
            annotations={"cni.projectcalico.org/podIP": f"{address}/32"},
        )

    async def detach(self, pod_uid: str) -> None:
        self.attached.pop(pod_uid, None)


class FakeRuntime:
    """A runtime whose containers run until a test ends them."""

    def __init__(self) -> None:
        self.running: dict[str, ContainerSpec] = {}
        self.started: list[ContainerSpec] = []
        self.stopped: list[tuple[str, float]] = []
        self.updates: list[tuple[str, dict[str, str]]] = []
        self.ends_with: dict[str, list[int]] = {}
        """Map each container's name to the exit codes of its next runs."""
        self.unknown: set[str] = set()
        self.builds: tuple[int, ...] = (17763, 20348)
        self.probe_answer: Callable[[ProbeSpec], bool] = lambda spec: True
        self.lines: dict[str, list[bytes]] = {}
        self._exits: list[Callable[[ContainerExit], None]] = []

    def image(self, reference: str) -> ImageFacts:
        windows = "windows" in reference
        system: tuple[Literal["linux", "windows"], ...] = (
            ("windows",)
            if windows
            else ("linux", "windows")
            if "calico" in reference
            else ("linux",)
        )
        builds = self.builds if "windows" in system else ()
        return ImageFacts(
            reference=reference,
            os=system,
            windows_builds=builds,
            known=reference not in self.unknown,
        )

    async def start(self, spec: ContainerSpec) -> None:
        if spec.command == ("missing",):
            raise RuntimeRefused('exec: "missing": executable file not found in $PATH')
        self.running[spec.id] = spec
        self.started.append(spec)
        codes = self.ends_with.get(spec.name)
        if codes:
            self.end(spec.id, codes.pop(0))

    def end(self, container: str, code: int) -> None:
        if self.running.pop(container, None):
            ended = ContainerExit(
                container=container, exit_code=code, reason="Error" if code else "Completed"
            )
            for callback in self._exits:
                asyncio.get_running_loop().call_soon(callback, ended)

    async def stop(self, container: str, *, grace: float) -> None:
        self.stopped.append((container, grace))
        self.end(container, 143)

    async def remove(self, container: str) -> None:
        self.lines.pop(container, None)

    async def update_files(self, container: str, files: dict[str, str]) -> None:
        self.updates.append((container, files))

    async def exec(self, spec: Any, *, stdin: int | None, stdout: int, stderr: int) -> ExecResult:
        if spec.argv == ("absent",):
            return ExecResult(exit_code=None, start_error='exec: "absent": not found')
        if spec.argv == ("wait",):
            await asyncio.Event().wait()
        # the channel does so before it suspends, too
        fds = [os.dup(fd) for fd in (stdout, stderr, stdin) if fd is not None]
        try:
            given = await asyncio.to_thread(os.read, fds[2], 100) if stdin is not None else b""
            os.write(fds[0], b"out:" + given)
            os.write(fds[1], b"err")
        finally:
            for fd in fds:
                os.close(fd)
        return ExecResult(exit_code=3)

    async def append_log(self, container: str, line: str) -> None:
        pass

    async def probe(self, spec: ProbeSpec) -> ProbeResult:
        return ProbeResult(ok=self.probe_answer(spec), message="as told")

    async def logs(self, container: str, *, follow: bool) -> AsyncIterator[tuple[float, bytes]]:
        for line in self.lines.get(container, []):
            yield time.time(), line

    def on_exit(self, callback: Callable[[ContainerExit], None]) -> None:
        self._exits.append(callback)


class Cluster:
    """A control plane over the real API and the stand-ins; use it in ``async with``."""

    def __init__(
        self,
        profile: Profile = CLUSTER,
        *,
        system_workloads: bool = False,
    ) -> None:
        self.core = Core(Settings(service_cidr=profile.network.service_cidr))
        self.client = self.core.client("test")
        self.dataplane, self.network, self.runtime = (
            RecordingDataplane(),
            FakeNetwork(),
            FakeRuntime(),
        )
        self.control_plane = ControlPlane(
            self.core.client,
            self.dataplane.plane,
            self.runtime,
            profile,
            self.network,
            Installed(profile, plane_of(profile)),
            settings=QUICK,
            system_workloads=system_workloads,
        )

    async def __aenter__(self) -> Cluster:
        await self.control_plane.register()
        await self.control_plane.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.control_plane.stop()

    async def until(self, test: Callable[[], Awaitable[Any]], seconds: float = 5.0) -> Any:
        """Wait until the result of ``test`` is true, and return the result."""
        deadline = time.monotonic() + seconds
        while True:
            answer = await test()
            if answer:
                return answer
            assert time.monotonic() < deadline, "did not become true"
            await asyncio.sleep(0.003)

    async def pod(self, name: str, namespace: str = "default") -> Obj:
        return await self.client.get("pods", name, namespace)

    async def pod_when(self, name: str, test: Callable[[Obj], Any]) -> Obj:
        async def holds() -> Obj | None:
            found = await self.pod(name)
            return found if test(found) else None

        found: Obj = await self.until(holds)
        return found

    async def running(self, name: str) -> Obj:
        return await self.pod_when(name, is_ready)

    async def events(self, reason: str) -> list[str]:
        found, _ = await self.client.list("events")
        return [event["message"] for event in found if event["reason"] == reason]

    async def event(self, reason: str) -> str:
        async def any_event() -> list[str]:
            return await self.events(reason)

        messages: list[str] = await self.until(any_event)
        return messages[0]


def in_cluster(scenario: Callable[[Cluster], Awaitable[None]], **options: Any) -> None:
    """Run the scenario in a cluster of its own."""

    async def run() -> None:
        async with Cluster(**options) as cluster:
            await scenario(cluster)

    asyncio.run(run())
