"""A Felix that ends as soon as it starts: its kubelet starts it again, later each time, and nothing is programmed."""

import asyncio
import contextlib
from collections.abc import Mapping

from hybridlab.api.contract import ApiError, Obj
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE_OR_ALL, Fault, Types
from hybridlab.runtime.contract import RuntimeRefused

TYPES = Types()

CONTAINERS = {"calico-node": "calico-node", "calico-node-windows": "felix"}
"""``k8s-app`` label of the pod to the container that Felix runs in."""
LOOK_EVERY = 0.3
"""Seconds between looks for a container that runs again."""


@TYPES.fault("felix-crash-loops", "policy", NODE_OR_ALL)
class FelixCrashLoops(Fault):
    """Felix ends as soon as it starts, again and again, and programs nothing."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab, self._identity = lab, identity
        self._felixes = {node: lab.calico.felixes[node] for node in lab.nodes(parameters["node"])}
        self._killing: asyncio.Task[None] | None = None

    async def inject(self) -> None:
        """From now on none of them gets beyond its start."""
        for felix in self._felixes.values():
            felix.faults.dead.add(self._identity)
        self._killing = asyncio.create_task(self._kill(), name=f"fault {self._identity}")

    async def heal(self) -> None:
        """Those that run start at once, the others when their kubelet starts them."""
        if self._killing is not None:
            self._killing.cancel()
            await asyncio.gather(self._killing, return_exceptions=True)
            self._killing = None
        for felix in self._felixes.values():
            felix.faults.dead.discard(self._identity)
            felix.start_if_asked()

    async def evidence(self) -> list[str]:
        return [
            f"Felix of {node} ends whenever it starts"
            for node, felix in self._felixes.items()
            if self._identity in felix.faults.dead
        ]

    async def _kill(self) -> None:
        """Kill what runs, for ever."""
        while True:
            pods, _ = await self._lab.client.list("pods", labels=f"k8s-app in ({', '.join(CONTAINERS)})")
            for pod in pods:
                container = CONTAINERS[pod["metadata"]["labels"]["k8s-app"]]
                if pod["spec"].get("nodeName") in self._felixes and _runs(pod, container):
                    with contextlib.suppress(ApiError, RuntimeRefused):  # it has just ended by itself
                        await self._lab.kill_container(pod, container)
            await asyncio.sleep(LOOK_EVERY)


def _runs(pod: Obj, container: str) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any(status["name"] == container and "running" in (status.get("state") or {}) for status in statuses)
