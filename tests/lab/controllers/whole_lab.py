# SPDX-License-Identifier: Apache-2.0
"""A whole lab without the HTTPS server: real labd, data plane and runtime, Calico, the API in
memory, the control plane."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from hybridlab.api.contract import Obj, Streams
from hybridlab.api.core import Core, Settings
from hybridlab.calico.cluster import Calico
from hybridlab.cluster.installs.installed import Installed
from hybridlab.cluster.kube_proxy_pods import WindowsKubeProxies
from hybridlab.cluster.windows_hosts import HostAnswers, windows_hosts
from hybridlab.controllers.manager import ControlPlane
from hybridlab.dataplane.contract import remote_dataplane
from hybridlab.faults.gates import ServiceGate
from hybridlab.kernel.rpc import Server
from hybridlab.labd.launch import LabdSettings, launch
from hybridlab.networks.registry import plane_of
from hybridlab.profiles.model import Profile
from hybridlab.runtime.contract import WindowsHosts
from hybridlab.runtime.descriptors import RemoteStreams, remote_runtime
from tests.unit.hybridlab.builders import is_ready

FELIX = {"calico-node": "calico-node", "calico-node-windows": "felix"}
"""Map the label k8s-app to the container in which Felix runs."""


class Collected:
    """A channel of an exec that collects the data."""

    def __init__(self) -> None:
        self.data = b""

    async def send(self, data: bytes) -> None:
        self.data += data


class WholeLab:
    """The lab; use it in ``async with``."""

    def __init__(self, profile: Profile, *, patient: bool = False) -> None:
        """Set up the lab. ``patient``: containers get all the time to end that their pods allow."""
        self.profile = profile
        self._labd = launch(
            LabdSettings(applet_settings={} if patient else {"stop_grace_max_ms": 200})
        )
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> WholeLab:
        self.channel = channel = await self._labd.connect()
        streams = RemoteStreams(channel)
        self.runtime, self.dataplane = remote_runtime(channel, streams), remote_dataplane(channel)
        channel.on_event = streams.event
        self.core = Core(Settings(service_cidr=self.profile.network.service_cidr))
        self.client = self.core.client("test")
        plane = plane_of(self.profile)
        installed = Installed(self.profile, plane)
        self.calico = Calico(self.core.client, self.dataplane, self.profile, plane, installed)
        service_gate = ServiceGate(self.dataplane)
        self.control_plane = ControlPlane(
            self.core.client,
            self.dataplane,
            self.runtime,
            self.profile,
            self.calico.pod_network,
            installed,
            proxied=service_gate,
            snat_local_pods_to=self.calico.snat_for,
        )
        on_windows = {name: (node.machine, node.hns) for name, node in self.calico.windows.items()}
        kube_proxies = WindowsKubeProxies(
            self.profile, plane, on_windows, self.control_plane, self.runtime, service_gate
        )
        hosts = windows_hosts(self.calico, self.control_plane, kube_proxies, self.profile)
        Server(WindowsHosts, channel).answer_with(HostAnswers(hosts, self.calico))
        self.control_plane.on_container_started(self._started)
        self.control_plane.on_container_stopped(self._stopped)
        await self.control_plane.register()
        await self.calico.start()
        await self.control_plane.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.control_plane.stop()
        await self.calico.stop()
        await self._labd.close()

    def _started(self, node: str, pod: Obj, container: str) -> None:
        if FELIX.get((pod["metadata"].get("labels") or {}).get("k8s-app", "")) == container:
            self.calico.felix_started(node)

    def _stopped(self, node: str, pod: Obj, container: str) -> None:
        if FELIX.get((pod["metadata"].get("labels") or {}).get("k8s-app", "")) == container:
            task = asyncio.create_task(self.calico.felix_stopped(node))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def until(self, test: Callable[[], Awaitable[Any]], seconds: float = 20.0) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            answer = await test()
            if answer:
                return answer
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"did not become true within {seconds} s; {await self._state()}"
                )
            await asyncio.sleep(0.003)

    async def _state(self) -> str:
        pods, _ = await self.client.list("pods")
        events, _ = await self.client.list("events")
        unready = [pod["metadata"]["name"] for pod in pods if not is_ready(pod)]
        warnings = [event["message"] for event in events if event["type"] == "Warning"]
        return f"not ready: {unready}; warnings: {warnings[-8:]}"

    async def all_ready(self, namespace: str | None = None, count: int = 1) -> list[Obj]:
        async def every() -> list[Obj] | None:
            pods, _ = await self.client.list("pods", namespace)
            return pods if len(pods) >= count and all(is_ready(pod) for pod in pods) else None

        found: list[Obj] = await self.until(every)
        return found

    async def exec(
        self, namespace: str, name: str, *argv: str, container: str = ""
    ) -> tuple[int | None, str, str]:
        pod = await self.client.get("pods", name, namespace)
        agent = self.control_plane.node_agent(pod["spec"]["nodeName"])
        assert agent is not None
        out, err = Collected(), Collected()
        ended = await agent.exec(
            pod,
            container or pod["spec"]["containers"][0]["name"],
            argv,
            Streams(stdin=None, stdout=out, stderr=err),
        )
        return ended.exit_code, out.data.decode(), err.data.decode() + (ended.start_error or "")
