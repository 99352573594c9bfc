# SPDX-License-Identifier: Apache-2.0
"""DaemonSets: one pod on every node that the template matches, updated node by node.

maxSurge and ControllerRevisions are not emulated: an update deletes the old pod first, and
``rollout undo`` has no history.
"""

import asyncio

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.deployments import share, template_hash
from hybridlab.controllers.events import Recorder
from hybridlab.controllers.fit import PodNeeds, matches_node, untolerated
from hybridlab.controllers.owned import Owned, ready_since
from hybridlab.controllers.replicasets import new_pod
from hybridlab.controllers.selectors import labels_of
from hybridlab.controllers.work import Controller, Work, write_status

RESOURCE = "daemonsets.apps"
COMPONENT = "daemonset-controller"
HASH = "controller-revision-hash"
DELAY = 0.003

TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""Taints that every DaemonSet's pods tolerate."""
HOST_NETWORK_TOLERATED = ("node.kubernetes.io/network-unavailable", "NoSchedule")


class DaemonSets(Controller):
    """The DaemonSet controller."""

    def __init__(
        self, client: Client, caches: Caches, recorder: Recorder, replaced_after: float = 0.0
    ) -> None:
        """Set up the controller. ``replaced_after``: the seconds for which a node has no pod after
        another client deleted its pod."""
        self._client = client
        self._replaced_after = replaced_after
        self._had: set[tuple[str, str]] = set()
        """Pairs (DaemonSet's uid, node): this node had a pod that the controller itself did not
        delete."""
        self._bereft: dict[tuple[str, str], float] = {}
        """For each pair in ``_had`` without a pod: the time on the loop's clock at which the pod
        was first missing."""
        self._recorder = recorder
        self._sets = caches.of(RESOURCE)
        self._nodes = caches.of("nodes")
        self.work = Work("daemonsets", self._sync, delay=DELAY)
        self._pods = Owned(
            caches.of("pods"),
            "DaemonSet",
            lambda namespace, name: self.work.note((namespace, name)),
        )
        self._sets.subscribe(self.note)
        self._nodes.subscribe(self._on_node)

    def _on_node(self, node: Obj | None, before: Obj | None) -> None:
        if (
            node
            and before
            and node["spec"] == before["spec"]
            and labels_of(node) == labels_of(before)
        ):
            return
        for each in self._sets:
            self.note(each)

    async def _sync(self, key: tuple[str, str]) -> None:
        found = self._sets.get(*key)
        if found is None or "deletionTimestamp" in found["metadata"]:
            return
        wanted = {node["metadata"]["name"] for node in self._nodes if self._fits(found, node)}
        by_node = self._by_node(found)
        for node, pods in by_node.items():
            for pod in pods:
                over = pod.get("status", {}).get("phase") in {"Failed", "Succeeded"}
                if (node not in wanted or over) and "deletionTimestamp" not in pod["metadata"]:
                    await self._delete(found, pod)
        for node in sorted(wanted):
            if not by_node.get(node) and self._may_be_replaced(found, node):
                await self._create(found, node)
        await self._update(found, wanted)
        await self._write_status(found, wanted)

    @staticmethod
    def _fits(owner: Obj, node: Obj) -> bool:
        pod = {"metadata": {}, "spec": _spec(owner)}
        needs = PodNeeds(pod, {}, (), pod["spec"]["tolerations"])
        return (
            matches_node(pod, node)
            and untolerated(needs, node, ("NoSchedule", "NoExecute")) is None
        )

    def _by_node(self, owner: Obj) -> dict[str, list[Obj]]:
        found: dict[str, list[Obj]] = {}
        for pod in self._pods.of(owner["metadata"]["uid"]):
            found.setdefault(_node_of(pod), []).append(pod)
        return found

    def _may_be_replaced(self, owner: Obj, node: str) -> bool:
        """Return whether a node without a pod gets a pod now. If the node has to wait, check the
        DaemonSet again when the time is over."""
        meta = owner["metadata"]
        place = meta["uid"], node
        now = asyncio.get_running_loop().time()
        remaining = (
            self._bereft.setdefault(place, now) + self._replaced_after - now
            if place in self._had
            else 0.0
        )
        if remaining > 0:
            self.work.note_after(remaining, (meta["namespace"], meta["name"]))
            return False
        self._bereft.pop(place, None)
        return True

    async def _create(self, owner: Obj, node: str) -> None:
        pod = new_pod(owner)
        pod["metadata"]["labels"] |= {
            HASH: template_hash(owner["spec"]["template"]),
            "pod-template-generation": str(owner["metadata"]["generation"]),
        }
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        spec = pod["spec"] = _spec(owner)
        affinity = {**(spec.get("affinity") or {})}
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
        spec["affinity"] = affinity
        try:
            created = await self._client.create("pods", pod, owner["metadata"]["namespace"])
        except ApiError as error:
            message = f"Error creating: {error.message}"
            self._recorder.record(
                owner, "FailedCreate", message, component=COMPONENT, type="Warning"
            )
            self.note_after(1.0, owner)
            return
        self._pods.remember(created)
        self._had.add((owner["metadata"]["uid"], node))
        message = f"Created pod: {created['metadata']['name']}"
        self._recorder.record(owner, "SuccessfulCreate", message, component=COMPONENT)

    async def _delete(self, owner: Obj, pod: Obj) -> None:
        meta = pod["metadata"]
        try:
            await self._client.delete("pods", meta["name"], meta["namespace"], uid=meta["uid"])
        except ApiError as error:
            if error.code not in {404, 409}:
                raise
        self._had.discard((owner["metadata"]["uid"], _node_of(pod)))
        message = f"Deleted pod: {meta['name']}"
        self._recorder.record(owner, "SuccessfulDelete", message, component=COMPONENT)

    async def _update(self, owner: Obj, wanted: set[str]) -> None:
        """Delete pods of an older template, as many at a time as may be unavailable."""
        strategy = owner["spec"]["updateStrategy"]
        if strategy["type"] != "RollingUpdate":
            return
        current = template_hash(owner["spec"]["template"])
        limit = (
            share(
                (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1), len(wanted), up=True
            )
            or 1
        )
        outdated = []
        unavailable = 0
        by_node = self._by_node(owner)
        for node in wanted:
            pods = by_node.get(node) or []
            if not any(
                ready_since(pod) is not None and "deletionTimestamp" not in pod["metadata"]
                for pod in pods
            ):
                unavailable += 1
            outdated += [
                pod
                for pod in pods
                if labels_of(pod).get(HASH) != current
                and "deletionTimestamp" not in pod["metadata"]
            ]
        for pod in sorted(outdated, key=lambda pod: ready_since(pod) is not None):
            healthy = ready_since(pod) is not None
            if healthy and unavailable >= limit:
                return
            unavailable += healthy
            await self._delete(owner, pod)

    async def _write_status(self, owner: Obj, wanted: set[str]) -> None:
        pods = self._by_node(owner)
        current = template_hash(owner["spec"]["template"])
        chosen = [pod for node in wanted for pod in (pods.get(node) or [])[:1]]
        ready = sum(ready_since(pod) is not None for pod in chosen)
        updated = sum(labels_of(pod).get(HASH) == current for pod in chosen)
        status = {
            "currentNumberScheduled": len(chosen),
            "desiredNumberScheduled": len(wanted),
            "numberAvailable": ready or None,
            "numberMisscheduled": sum(node not in wanted for node in pods),
            "numberReady": ready,
            "numberUnavailable": (len(wanted) - ready) or None,
            "observedGeneration": owner["metadata"]["generation"],
            "updatedNumberScheduled": updated or None,
        }
        await write_status(self._client, RESOURCE, owner, status)


def _spec(owner: Obj) -> Obj:
    """Return the pod's specification with the tolerations that every daemon has."""
    spec = dict(owner["spec"]["template"]["spec"])
    taints = [*TOLERATED, HOST_NETWORK_TOLERATED] if spec.get("hostNetwork") else list(TOLERATED)
    own = list(spec.get("tolerations") or ())
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in taints]
    spec["tolerations"] = own + [entry for entry in added if entry not in own]
    return spec


def _node_of(pod: Obj) -> str:
    """Return the node on which a daemon's pod is, or for which it is meant."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    terms = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    return str(terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])
