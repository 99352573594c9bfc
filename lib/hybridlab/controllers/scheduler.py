# SPDX-License-Identifier: Apache-2.0
"""The scheduler: binds waiting pods to nodes, and reports the reason if no node fits.

A pod that fits no node is tried again after a change that could help: of a node, of a namespace's
labels, or of another pod or its labels.
"""

import asyncio
import logging

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.events import Recorder
from hybridlab.controllers.fit import Cluster, NodeState, PodNeeds, explain
from hybridlab.controllers.selectors import labels_of
from hybridlab.controllers.times import timestamp

logger = logging.getLogger(__name__)

COMPONENT = "default-scheduler"


class Scheduler:
    """The scheduler for pods with the ``schedulerName`` ``default-scheduler``."""

    def __init__(self, client: Client, caches: Caches, recorder: Recorder) -> None:
        self._client = client
        self._recorder = recorder
        self._cluster = Cluster()
        self._waiting: dict[str, PodNeeds] = {}
        self._hopeless: dict[str, PodNeeds] = {}
        self._where: dict[str, str] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._pods = caches.of("pods")
        caches.of("nodes").subscribe(self._on_node)
        self._pods.subscribe(self._on_pod)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="scheduler")

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _on_node(self, node: Obj | None, before: Obj | None) -> None:
        if node is None:
            if before:
                self._cluster.nodes.pop(before["metadata"]["name"], None)
            return
        name = node["metadata"]["name"]
        state = self._cluster.nodes.get(name)
        if state is None:
            self._cluster.nodes[name] = NodeState(node)
            for pod in self._pods:
                if pod["spec"].get("nodeName") == name:
                    self._on_pod(pod, None)
        else:
            old = state.node
            state.node = node
            if all(
                old.get("status", {}).get("allocatable")
                == node.get("status", {}).get("allocatable")
                if part == "status"
                else old.get(part) == node.get(part)
                for part in ("spec", "status")
            ) and labels_of(old) == labels_of(node):
                return
        self._try_again()

    def _on_pod(self, pod: Obj | None, before: Obj | None) -> None:
        found = pod or before
        if found is None:
            return
        uid = found["metadata"]["uid"]
        over = pod is None or pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
        if pod is None or over:
            self._waiting.pop(uid, None)
            self._hopeless.pop(uid, None)
            place = self._where.pop(uid, None)
            if place in self._cluster.nodes:
                self._cluster.nodes[place].remove(uid)
                self._try_again()
            return
        node = pod["spec"].get("nodeName")
        if node:
            self._waiting.pop(uid, None)
            self._hopeless.pop(uid, None)
            self._place(uid, node, pod)
        elif self._mine(pod):
            if uid in self._hopeless and before and before["spec"] == pod["spec"]:
                return
            self._hopeless.pop(uid, None)
            self._waiting[uid] = PodNeeds.of(pod)
            self._wake.set()

    @staticmethod
    def _mine(pod: Obj) -> bool:
        spec = pod["spec"]
        return (
            (spec.get("schedulerName") or COMPONENT) == COMPONENT
            and not spec.get("schedulingGates")
            and "deletionTimestamp" not in pod["metadata"]
        )

    def _place(self, uid: str, node: str, pod: Obj) -> None:
        state = self._cluster.nodes.get(node)
        if state is None:
            return
        if self._where.get(uid) == node and uid in state.pods:
            state.pods[uid].pod = pod
        else:
            self._where[uid] = node
            state.add(PodNeeds.of(pod))

    def _try_again(self) -> None:
        if self._hopeless:
            self._waiting.update(self._hopeless)
            self._hopeless.clear()
            self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                uid = next(iter(self._waiting))
                needs = self._waiting.pop(uid)
                try:
                    await self._schedule(uid, needs)
                except ApiError as error:
                    logger.debug(
                        "pod %s could not be bound: %s", uid, error
                    )  # deleted or bound meanwhile: its event follows
                await asyncio.sleep(0)  # let kubelets start the pods that are already bound

    async def _schedule(self, uid: str, needs: PodNeeds) -> None:
        reasons = []
        fitting = []
        for state in self._cluster.nodes.values():
            why = self._cluster.why_not(needs, state)
            if why:
                reasons.append(why)
            else:
                fitting.append(state)
        if not fitting:
            self._hopeless[uid] = needs
            await self._refuse(needs.pod, explain(reasons))
            return
        best = max(fitting, key=lambda state: self._cluster.score(needs, state))
        await self._bind(uid, needs, best)

    async def _bind(self, uid: str, needs: PodNeeds, state: NodeState) -> None:
        meta = needs.pod["metadata"]
        node = state.node["metadata"]["name"]
        self._where[uid] = node
        state.add(needs)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._client.create("bindings", binding, meta["namespace"])
        except ApiError:
            state.remove(uid)
            self._where.pop(uid, None)
            raise
        message = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
        self._recorder.record(needs.pod, "Scheduled", message, component=COMPONENT)

    async def _refuse(self, pod: Obj, message: str) -> None:
        conditions = pod.get("status", {}).get("conditions") or []
        known = next((entry for entry in conditions if entry["type"] == "PodScheduled"), None)
        self._recorder.record(pod, "FailedScheduling", message, component=COMPONENT, type="Warning")
        if known and known.get("message") == message:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(),
        }
        others = [entry for entry in conditions if entry["type"] != "PodScheduled"]
        meta = pod["metadata"]
        await self._client.patch(
            "pods",
            meta["name"],
            {"metadata": {"uid": meta["uid"]}, "status": {"conditions": [*others, condition]}},
            meta["namespace"],
            subresource="status",
        )
