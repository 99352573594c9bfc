# SPDX-License-Identifier: Apache-2.0
"""Pod garbage collection: pods of missing nodes are removed, since they have no kubelet that ends
them."""

import asyncio
import logging
import time

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.times import timestamp

logger = logging.getLogger(__name__)

CHECK_SECONDS = 20.0
"""The interval, in seconds, at which pods are checked, as in kube-controller-manager."""
QUARANTINE_SECONDS = 40.0
"""Seconds for which a node must be missing before its pods are removed."""


class PodGarbage:
    """The pod garbage collector, as far as it concerns nodes that no longer exist."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        *,
        check: float = CHECK_SECONDS,
        quarantine: float = QUARANTINE_SECONDS,
    ) -> None:
        """Set up the collector. ``check``: seconds between two checks. ``quarantine``: seconds for
        which a node must have been missing."""
        self._client = client
        self._pods = caches.of("pods")
        self._nodes = caches.of("nodes")
        self._check = check
        self._quarantine = quarantine
        self._missing: dict[str, float] = {}
        """Nodes that pods name but that do not exist, with the time when they were first missed."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="pod garbage collection")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._check)
            for pod in self._orphans():
                try:
                    await self._remove(pod)
                except ApiError as error:  # gone or changed: the next check decides again
                    logger.debug(
                        "pod %s could not be collected: %s", pod["metadata"]["name"], error
                    )

    def _orphans(self) -> list[Obj]:
        """Return the pods whose node has been missing for long enough."""
        now = time.monotonic()
        lost = [
            pod
            for pod in self._pods
            if (node := pod["spec"].get("nodeName")) and not self._nodes.get("", node)
        ]
        names = {pod["spec"]["nodeName"] for pod in lost}
        self._missing = {name: self._missing.get(name, now) for name in names}
        return [
            pod for pod in lost if now - self._missing[pod["spec"]["nodeName"]] >= self._quarantine
        ]

    async def _remove(self, pod: Obj) -> None:
        """Write the reason into the pod's status, and delete the pod without a grace period."""
        meta = pod["metadata"]
        status = pod.get("status") or {}
        if status.get("phase") not in {"Succeeded", "Failed"}:
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastTransitionTime": timestamp(),
            }
            patch = {
                "metadata": {"uid": meta["uid"]},
                "status": {"phase": "Failed", "conditions": [condition]},
            }
            await self._client.patch(
                "pods",
                meta["name"],
                patch,
                meta["namespace"],
                kind="strategic",
                subresource="status",
            )
        await self._client.delete(
            "pods", meta["name"], meta["namespace"], grace_period_seconds=0, uid=meta["uid"]
        )
