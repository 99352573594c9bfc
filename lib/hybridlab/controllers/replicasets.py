# SPDX-License-Identifier: Apache-2.0
"""ReplicaSets: keep the wanted number of pods, made from the template, and a status that counts
them.

Pods with matching labels but without an owner are not adopted.
"""

import asyncio
import time

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.events import Recorder
from hybridlab.controllers.owned import Owned, is_active, owner_reference, ready_since
from hybridlab.controllers.selectors import labels_of
from hybridlab.controllers.times import seconds_of, timestamp
from hybridlab.controllers.work import Controller, Work, write_status

RESOURCE = "replicasets.apps"
COMPONENT = "replicaset-controller"
DELAY = 0.003
"""Seconds for which changes of pods are gathered before their ReplicaSet is checked once."""


class ReplicaSets(Controller):
    """The ReplicaSet controller."""

    def __init__(self, client: Client, caches: Caches, recorder: Recorder) -> None:
        self._client = client
        self._recorder = recorder
        self._sets = caches.of(RESOURCE)
        self.work = Work("replicasets", self._sync, delay=DELAY)
        self._pods = Owned(
            caches.of("pods"),
            "ReplicaSet",
            lambda namespace, name: self.work.note((namespace, name)),
        )
        self._sets.subscribe(self.note)

    async def _sync(self, key: tuple[str, str]) -> None:
        found = self._sets.get(*key)
        if found is None:
            return
        problem = await self._scale(found) if "deletionTimestamp" not in found["metadata"] else ""
        await self._write_status(found, problem)

    async def _scale(self, owner: Obj) -> str:
        """Create or delete pods; return the error that prevented a new pod."""
        pods = [pod for pod in self._pods.of(owner["metadata"]["uid"]) if is_active(pod)]
        missing = owner["spec"].get("replicas", 1) - len(pods)
        for _ in range(missing):
            try:
                pod = await self._client.create(
                    "pods", new_pod(owner), owner["metadata"]["namespace"]
                )
            except ApiError as error:
                message = f"Error creating: {error.message}"
                self._recorder.record(
                    owner, "FailedCreate", message, component=COMPONENT, type="Warning"
                )
                self.note_after(1.0, owner)
                return error.message
            self._pods.remember(pod)
            message = f"Created pod: {pod['metadata']['name']}"
            self._recorder.record(owner, "SuccessfulCreate", message, component=COMPONENT)
            await asyncio.sleep(0)  # let the first pods be scheduled meanwhile
        for pod in sorted(pods, key=_expendable)[: max(-missing, 0)]:
            await self._delete(owner, pod)
        return ""

    async def _delete(self, owner: Obj, pod: Obj) -> None:
        meta = pod["metadata"]
        try:
            await self._client.delete("pods", meta["name"], meta["namespace"], uid=meta["uid"])
        except ApiError as error:
            if error.code not in {404, 409}:
                raise
        self._pods.doom(pod)
        message = f"Deleted pod: {meta['name']}"
        self._recorder.record(owner, "SuccessfulDelete", message, component=COMPONENT)

    async def _write_status(self, owner: Obj, problem: str) -> None:
        meta = owner["metadata"]
        pods = [pod for pod in self._pods.of(meta["uid"]) if is_active(pod)]
        ready = [moment for moment in map(ready_since, pods) if moment is not None]
        soak = owner["spec"].get("minReadySeconds", 0)
        available = sum(_available(moment, soak) for moment in ready)
        if available < len(ready):
            self.note_after(min(soak, 1.0), owner)
        status: Obj = {
            "replicas": len(pods),
            "fullyLabeledReplicas": _fully_labeled(owner, pods) or None,
            "readyReplicas": len(ready) or None,
            "availableReplicas": available or None,
            "observedGeneration": meta["generation"],
            "conditions": [_failure(problem)] if problem else None,
        }
        await write_status(self._client, RESOURCE, owner, status)


def _fully_labeled(owner: Obj, pods: list[Obj]) -> int:
    """Return how many pods have all labels of the template."""
    template = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
    return sum(template.items() <= labels_of(pod).items() for pod in pods)


def _failure(problem: str) -> Obj:
    return {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": problem,
        "lastTransitionTime": timestamp(),
    }


def _available(since: str, soak: int) -> bool:
    return not soak or (bool(since) and time.time() - seconds_of(since) >= soak)


def new_pod(owner: Obj) -> Obj:
    """Return a pod from the template of a controller; its name is made from the controller's."""
    template = owner["spec"]["template"]
    meta = template.get("metadata") or {}
    annotations = {"annotations": dict(meta["annotations"])} if meta.get("annotations") else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **annotations,
            "generateName": f"{owner['metadata']['name']}-",
            "namespace": owner["metadata"]["namespace"],
            "labels": dict(meta.get("labels") or {}),
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": template["spec"],
    }


def _expendable(pod: Obj) -> tuple[bool, bool, bool, int, float]:
    """Return the sort key for deletion: unassigned, pending, not ready, often restarted, young pods
    first."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return (
        bool(pod["spec"].get("nodeName")),
        pod.get("status", {}).get("phase") == "Running",
        ready_since(pod) is not None,
        -sum(entry["restartCount"] for entry in statuses),
        -seconds_of(pod["metadata"]["creationTimestamp"]),
    )
