# SPDX-License-Identifier: Apache-2.0
"""The kube-proxy process that a Windows host shows: it lives as long as its pod, or is a service of
the host.

``controllers.kube_proxy`` programs Services in its place, whether or not the process exists. If HNS
loses Services with its network, the Services return only when kube-proxy's pod is created again.
"""

import asyncio
import functools
from collections.abc import Coroutine, Mapping
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.cluster.installs.axes import provider_of
from hybridlab.controllers.environment import command_line
from hybridlab.controllers.manager import ControlPlane
from hybridlab.faults.gates import ServiceGate
from hybridlab.networks.contract.plane import Plane
from hybridlab.profiles.machines import Machine
from hybridlab.profiles.model import Profile
from hybridlab.runtime.contract import Runtime, RuntimeRefused
from hybridlab.windows.hns_networks import Hns
from hybridlab.windows.kube_proxy import (
    SCRIPT_WAITS,
    script_command,
    script_goes_on,
    service_command,
)

APP = "kube-proxy-windows"
CONTAINER = "kube-proxy"
ASKS_EVERY = 0.1
"""The interval, in seconds, at which start.ps1 checks whether the network exists; on real nodes 1
s."""
FIRST_PROCESS = 6000


class WindowsKubeProxies:
    """The kube-proxy processes of all Windows nodes."""

    def __init__(  # noqa: PLR0917
        self,
        profile: Profile,
        plane: Plane,
        nodes: Mapping[str, tuple[Machine, Hns]],
        control_plane: ControlPlane,
        runtime: Runtime,
        service_gate: ServiceGate,
    ) -> None:
        self._profile = profile
        self._plane = plane
        self._nodes = nodes
        self._control_plane = control_plane
        self._runtime = runtime
        self._gate = service_gate
        self._lost: set[str] = set()
        """Nodes that lost their Services with the network."""
        self._gating: set[asyncio.Task[None]] = set()
        for node, (_, hns) in nodes.items():
            hns.on_change(functools.partial(self._network_changed, node))
        self._commands: dict[str, str] = {}
        self._processes: dict[str, int] = {}
        self._starting: dict[str, asyncio.Task[None]] = {}
        if not profile.kube_proxy.on_host:
            control_plane.on_container_started(self._started)
            control_plane.on_container_stopped(self._stopped)

    def process(self, node: str) -> tuple[int, str] | None:
        """Return the process id and command line of a node's kube-proxy; None if it does not
        run."""
        machine, hns = self._nodes[node]
        if self._profile.kube_proxy.on_host:
            vip = self._source_vip(node)
            pods = hns.pod_network
            if pods is None or (pods.spec.host_endpoint is not None and not vip):
                # start.ps1 still waits for the network, or for the host's endpoint on a network
                # that has such an endpoint
                return None
            program = provider_of(self._profile).kube_proxy_program
            command = service_command(self._profile, machine, program, self._plane.kube_proxy(vip))
            return FIRST_PROCESS + 4 * machine.index, command
        running = self._commands.get(node)
        return None if running is None else (self._processes[node], running)

    async def stop(self) -> None:
        """Cancel starts that are under way."""
        for task in self._starting.values():
            task.cancel()
        await asyncio.gather(*self._starting.values(), *self._gating, return_exceptions=True)

    def _source_vip(self, node: str) -> str:
        """Return the address of the endpoint that Calico creates for the host; return an empty
        string if there is none."""
        return self._nodes[node][1].host_endpoint or ""

    def _network_changed(self, node: str) -> None:
        hns = self._nodes[node][1]
        if hns.pod_network is None and hns.faults.loses_services and node not in self._lost:
            self._lost.add(node)
            self._soon(self._gate.lose(node))

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._gating.add(task)
        task.add_done_callback(self._gating.discard)

    def _started(self, node: str, pod: Obj, container: str) -> None:
        if not self._is_kube_proxy(node, pod, container):
            return
        if node in self._lost:
            self._lost.discard(node)
            self._soon(self._gate.regain(node))
        machine, _ = self._nodes[node]
        self._processes[node] = (
            self._processes.get(node, FIRST_PROCESS + 4 * machine.index) + 4 * 23
        )
        kubelet = self._control_plane.kubelets[node]
        if self._profile.kube_proxy.windows == "sig-windows-tools":
            script = self._script(node, machine, kubelet.container_id(pod, container))
            self._starting[node] = asyncio.create_task(script)
            return
        spec = next(item for item in pod["spec"]["containers"] if item["name"] == container)
        command, args = command_line(spec, kubelet.environment(pod, container))
        self._commands[node] = " ".join([*command, *args])

    def _stopped(self, node: str, pod: Obj, container: str) -> None:
        if not self._is_kube_proxy(node, pod, container):
            return
        self._commands.pop(node, None)
        if task := self._starting.pop(node, None):
            task.cancel()

    async def _script(self, node: str, machine: Machine, container: str) -> None:
        """Run what start.ps1 does: wait for Calico's network, run kube-proxy, and log both."""
        try:
            for line in SCRIPT_WAITS:
                await self._runtime.append_log(container, line)
            while not (vip := self._source_vip(node)):  # noqa: ASYNC110 - the script asks again and again, too
                await asyncio.sleep(ASKS_EVERY)
            network = self._plane.kube_proxy(vip)
            for line in script_goes_on(self._profile, machine, network):
                await self._runtime.append_log(container, line)
        except RuntimeRefused:  # the container has ended, and so has the script
            return
        self._commands[node] = script_command(self._profile, machine, network)

    def _is_kube_proxy(self, node: str, pod: Obj, container: str) -> bool:
        labels = pod["metadata"].get("labels") or {}
        return node in self._nodes and labels.get("k8s-app") == APP and container == CONTAINER
