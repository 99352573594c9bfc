# SPDX-License-Identifier: Apache-2.0
"""Connects Felix to its pod: Felix is started and stopped with the calico-node container of its
node, and logs to this container. On Linux the container also shows the CNI plugin's log, which it
mounts from its node."""

import asyncio
import base64
import contextlib
import logging
from collections.abc import Coroutine
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.calico.cluster import Calico
from hybridlab.calico.cni_log import PATH
from hybridlab.controllers.manager import ControlPlane
from hybridlab.runtime.contract import Runtime, RuntimeRefused

logger = logging.getLogger(__name__)

FELIX_CONTAINERS = {"calico-node": "calico-node", "calico-node-windows": "felix"}
"""The container in which Felix runs, by the ``k8s-app`` label of its pod."""

CNI_CONTAINER = "install-cni"
"""Init container that writes the node's CNI configuration."""


class FelixPods:
    """Connects every node's Felix to its pod."""

    def __init__(self, calico: Calico, control_plane: ControlPlane, runtime: Runtime) -> None:
        self._calico = calico
        self._control_plane = control_plane
        self._runtime = runtime
        self._containers: dict[str, str] = {}
        """The id of the container in which a node's Felix runs, by node."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """The newest task of each node. A task waits for the task before it, so that starts, stops
        and log lines keep their order."""
        self._ending = False
        calico.pod_network.logs.on_line = self._cni_logged
        control_plane.on_container_started(self._started)
        control_plane.on_container_stopped(self._stopped)

    def say(self, node: str, line: str) -> None:
        """Add a line of a node's Felix to its container's log; an empty ``node`` means every node.
        Without a pod the line is dropped."""
        if self._ending:
            return
        for name, container in [
            (name, container) for name, container in self._containers.items() if node in {"", name}
        ]:
            self._then(name, self._runtime.append_log(container, line))

    def _cni_logged(self, node: str) -> None:
        """Update the CNI plugin's log in the container of a Linux node; on Windows, the host itself
        shows the file."""
        text = self._calico.pod_network.logs.text(node)
        container = self._containers.get(node)
        if text is None or container is None or node in self._calico.windows or self._ending:
            return
        data = base64.b64encode(text.encode()).decode()

        async def update() -> None:
            with contextlib.suppress(RuntimeRefused):  # the container may have ended meanwhile
                await self._runtime.update_files(container, {PATH["linux"]: data})

        self._then(node, update())

    def start_services(self) -> None:
        """Start Felix on Windows nodes whose hosts run Felix without a pod, once their startup has
        ended, together with the programs that the network needs."""
        for node, windows in self._calico.windows.items():
            if self._calico.plane.starts(windows.machine):
                self._calico.felix_started(node)
                for program in self._calico.plane.windows_containers():
                    self._calico.plane.ran(node, program, now=True)

    async def stop(self) -> None:
        """Cancel the tasks under way; no Felix logs anything afterwards."""
        self._ending = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _started(self, node: str, pod: Obj, container: str) -> None:
        if _app(pod) in FELIX_CONTAINERS:
            self._calico.plane.ran(node, container, now=True)
        if self._is_felix(pod, container):
            kubelet = self._control_plane.kubelets[node]
            self._containers[node] = kubelet.container_id(pod, container)
            felix = kubelet.environment(pod, container)
            cni = kubelet.environment(pod, CNI_CONTAINER)
            self._then(node, self._log_errors(node, "start", self._start(node, felix, cni)))
            self._cni_logged(node)

    def _stopped(self, node: str, pod: Obj, container: str) -> None:
        if _app(pod) in FELIX_CONTAINERS and not self._ending:
            self._calico.plane.ran(node, container, now=False)
        if self._is_felix(pod, container) and not self._ending:
            self._containers.pop(node, None)
            self._then(node, self._log_errors(node, "end", self._calico.felix_stopped(node)))

    async def _start(self, node: str, felix: dict[str, str], cni: dict[str, str]) -> None:
        self._calico.felix_started(node, felix, cni)

    async def _log_errors(self, node: str, verb: str, action: Coroutine[Any, Any, None]) -> None:
        """Await a start or an end of Felix. Log errors in the lab's log and, if there is a
        container, in the container's log."""
        try:
            await action
        except Exception as error:
            logger.exception("Felix of %s did not %s", node, verb)
            self.say(node, f"[ERROR] Felix did not {verb}: {error}")

    @staticmethod
    def _is_felix(pod: Obj, container: str) -> bool:
        return FELIX_CONTAINERS.get(_app(pod)) == container

    def _then(self, node: str, action: Coroutine[Any, Any, None]) -> None:
        before = self._tasks.get(node)

        async def after() -> None:
            if before is not None:
                await asyncio.gather(before, return_exceptions=True)
            await action

        self._tasks[node] = asyncio.create_task(after())


def _app(pod: Obj) -> str:
    return str((pod["metadata"].get("labels") or {}).get("k8s-app", ""))
