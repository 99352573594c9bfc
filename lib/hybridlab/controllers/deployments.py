# SPDX-License-Identifier: Apache-2.0
"""Deployments: one ReplicaSet per template, rolled over within maxSurge and maxUnavailable."""

import hashlib
import json
import math
import time

from hybridlab.api.contract import Client, Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.events import Recorder
from hybridlab.controllers.owned import Owned, owner_reference
from hybridlab.controllers.rollout import deployment_conditions
from hybridlab.controllers.work import Controller, Work, write_status

RESOURCE = "deployments.apps"
SETS = "replicasets.apps"
COMPONENT = "deployment-controller"
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
HASH = "pod-template-hash"
SAFE_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The characters that Kubernetes uses in hashes and name suffixes, since they form no words."""
DELAY = 0.003


def template_hash(template: Obj) -> str:
    """Return a short name for a pod template, always the same for the same template."""
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).digest()
    return "".join(SAFE_LETTERS[byte % len(SAFE_LETTERS)] for byte in digest[:10])


def share(value: int | str, total: int, *, up: bool) -> int:
    """Return ``value``, or if it is a percentage, this part of ``total``, rounded up or down."""
    if isinstance(value, int):
        return value
    part = int(value.rstrip("%")) * total / 100
    return math.ceil(part) if up else math.floor(part)


class Deployments(Controller):
    """The Deployment controller."""

    def __init__(self, client: Client, caches: Caches, recorder: Recorder) -> None:
        self._client = client
        self._recorder = recorder
        self._deployments = caches.of(RESOURCE)
        self.work = Work("deployments", self._sync, delay=DELAY)
        self._sets = Owned(
            caches.of(SETS), "Deployment", lambda namespace, name: self.work.note((namespace, name))
        )
        self._deployments.subscribe(self.note)

    async def _sync(self, key: tuple[str, str]) -> None:
        found = self._deployments.get(*key)
        if found is None or "deletionTimestamp" in found["metadata"]:
            return
        sets = [
            each
            for each in self._sets.of(found["metadata"]["uid"])
            if "deletionTimestamp" not in each["metadata"]
        ]
        new = self._new_set(found, sets)
        old = [each for each in sets if each is not new]
        if new is None and not found["spec"].get("paused"):
            new = await self._create_set(found, old)
        if new is not None:
            new = await self._revise(found, new, old)
        if found["spec"].get("paused"):
            new, old = await self._resize(found, new, old)
        elif found["spec"]["strategy"]["type"] == "Recreate":
            new, old = await self._recreate(found, new, old)
        else:
            new, old = await self._roll(found, new, old)
        await self._clean_up(found, new, old)
        await self._write_status(found, new, old)

    @staticmethod
    def _new_set(owner: Obj, sets: list[Obj]) -> Obj | None:
        wanted = owner["spec"]["template"]
        for each in sorted(sets, key=lambda each: str(each["metadata"]["creationTimestamp"])):
            labels = {
                k: v
                for k, v in each["spec"]["template"]["metadata"].get("labels", {}).items()
                if k != HASH
            }
            template = {
                **each["spec"]["template"],
                "metadata": {**each["spec"]["template"]["metadata"]},
            }
            template["metadata"]["labels"] = labels
            if template_hash(template) == template_hash(wanted):
                return each
        return None

    async def _create_set(self, owner: Obj, old: list[Obj]) -> Obj:
        meta = owner["metadata"]
        spec = owner["spec"]
        name = template_hash(spec["template"])
        template_meta = spec["template"].get("metadata") or {}
        labels = {**(template_meta.get("labels") or {}), HASH: name}
        selector = {
            **spec["selector"],
            "matchLabels": {**(spec["selector"].get("matchLabels") or {}), HASH: name},
        }
        replicas = self._room(owner, old) if spec["strategy"]["type"] == "RollingUpdate" else 0
        if spec["strategy"]["type"] == "Recreate" and not any(
            _count(each, "replicas") for each in old
        ):
            replicas = spec["replicas"] if not any(each["spec"]["replicas"] for each in old) else 0
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{meta['name']}-{name}",
                "namespace": meta["namespace"],
                "labels": labels,
                "annotations": self._annotations(owner, old),
                "ownerReferences": [owner_reference(owner)],
            },
            "spec": {
                "replicas": replicas,
                **({"minReadySeconds": soak} if (soak := spec.get("minReadySeconds", 0)) else {}),
                "selector": selector,
                "template": {**spec["template"], "metadata": {**template_meta, "labels": labels}},
            },
        }
        created = await self._client.create(SETS, body, meta["namespace"])
        self._sets.remember(created)
        if replicas:
            self._scaled(owner, created, 0, replicas)
        return created

    def _room(self, owner: Obj, old: list[Obj]) -> int:
        """Return how many pods the new ReplicaSet may have now."""
        replicas = int(owner["spec"]["replicas"])
        total = sum(int(each["spec"]["replicas"]) for each in old)
        return max(0, min(replicas, replicas + self._surge(owner) - total))

    @staticmethod
    def _surge(owner: Obj) -> int:
        spec = owner["spec"]
        rolling = spec["strategy"].get("rollingUpdate") or {}
        return share(rolling.get("maxSurge", "25%"), spec["replicas"], up=True)

    def _unavailable(self, owner: Obj) -> int:
        spec = owner["spec"]
        rolling = spec["strategy"].get("rollingUpdate") or {}
        allowed = share(rolling.get("maxUnavailable", "25%"), spec["replicas"], up=False)
        return allowed if allowed or self._surge(owner) else 1

    def _annotations(self, owner: Obj, old: list[Obj]) -> dict[str, str]:
        kept = {
            name: value
            for name, value in (owner["metadata"].get("annotations") or {}).items()
            if name not in {"kubectl.kubernetes.io/last-applied-configuration", REVISION}
        }
        replicas = owner["spec"]["replicas"]
        return {
            **kept,
            REVISION: str(max((_revision(each) for each in old), default=0) + 1),
            DESIRED: str(replicas),
            MAXIMUM: str(replicas + self._surge(owner)),
        }

    async def _revise(self, owner: Obj, new: Obj, old: list[Obj]) -> Obj:
        """Give the current ReplicaSet the highest revision, and set the Deployment to that
        revision."""
        highest = max((_revision(each) for each in old), default=0)
        if _revision(new) <= highest:
            new = await self._patch_set(
                new, {"metadata": {"annotations": {REVISION: str(highest + 1)}}}
            )
        meta = owner["metadata"]
        revision = str(_revision(new))
        if (meta.get("annotations") or {}).get(REVISION) != revision:
            change = {"metadata": {"annotations": {REVISION: revision}}}
            await self._client.patch(RESOURCE, meta["name"], change, meta["namespace"])
        return new

    async def _patch_set(self, target: Obj, change: Obj) -> Obj:
        meta = target["metadata"]
        changed = await self._client.patch(SETS, meta["name"], change, meta["namespace"])
        self._sets.remember(changed)
        return changed

    async def _scale(self, owner: Obj, target: Obj, replicas: int) -> Obj:
        before = target["spec"]["replicas"]
        if before == replicas:
            return target
        annotations = {
            DESIRED: str(owner["spec"]["replicas"]),
            MAXIMUM: str(owner["spec"]["replicas"] + self._surge(owner)),
        }
        changed = await self._patch_set(
            target, {"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}}
        )
        self._scaled(owner, target, before, replicas)
        return changed

    def _scaled(self, owner: Obj, target: Obj, before: int, after: int) -> None:
        direction = "up" if after > before else "down"
        message = (
            f"Scaled {direction} replica set {target['metadata']['name']} from {before} to {after}"
        )
        self._recorder.record(owner, "ScalingReplicaSet", message, component=COMPONENT)

    async def _resize(
        self, owner: Obj, new: Obj | None, old: list[Obj]
    ) -> tuple[Obj | None, list[Obj]]:
        """Apply a changed number of replicas while no rollout is under way, by scaling the only
        ReplicaSet that has pods."""
        sets = [each for each in (new, *old) if each]
        running = [each for each in sets if each["spec"]["replicas"]]
        target = running[0] if len(running) == 1 else new
        if target is None or len(running) > 1:
            return new, old
        scaled = await self._scale(owner, target, owner["spec"]["replicas"])
        if target is new:
            return scaled, old
        return new, [scaled if each is target else each for each in old]

    async def _recreate(
        self, owner: Obj, new: Obj | None, old: list[Obj]
    ) -> tuple[Obj | None, list[Obj]]:
        old = [await self._scale(owner, each, 0) for each in old]
        if new is not None and not any(_count(each, "replicas") for each in old):
            new = await self._scale(owner, new, owner["spec"]["replicas"])
        return new, old

    async def _roll(
        self, owner: Obj, new: Obj | None, old: list[Obj]
    ) -> tuple[Obj | None, list[Obj]]:
        if new is None:
            return new, old
        replicas = owner["spec"]["replicas"]
        active = [each for each in old if each["spec"]["replicas"]]
        if (not active) or (new["spec"]["replicas"] > replicas):
            return await self._scale(owner, new, replicas), old
        total = new["spec"]["replicas"] + sum(each["spec"]["replicas"] for each in active)
        room = replicas + self._surge(owner) - total
        if room > 0 and new["spec"]["replicas"] < replicas:
            more = min(room, replicas - new["spec"]["replicas"])
            return await self._scale(owner, new, new["spec"]["replicas"] + more), old
        scaled = await self._shrink(owner, new, active)
        return new, [scaled.get(each["metadata"]["uid"], each) for each in old]

    async def _shrink(self, owner: Obj, new: Obj, active: list[Obj]) -> dict[str, Obj]:
        """Scale the old ReplicaSets down, unhealthy pods first, without going below the available
        minimum."""
        minimum = owner["spec"]["replicas"] - self._unavailable(owner)
        total = new["spec"]["replicas"] + sum(each["spec"]["replicas"] for each in active)
        unavailable = new["spec"]["replicas"] - _count(new, "availableReplicas")
        room = total - minimum - max(unavailable, 0)
        changed: dict[str, Obj] = {}
        active = sorted(active, key=lambda each: str(each["metadata"]["creationTimestamp"]))
        for each in active:
            unhealthy = each["spec"]["replicas"] - _count(each, "availableReplicas")
            less = min(room, max(unhealthy, 0))
            if less > 0:
                changed[each["metadata"]["uid"]] = await self._scale(
                    owner, each, each["spec"]["replicas"] - less
                )
                room -= less
        available = sum(_count(each, "availableReplicas") for each in (new, *active))
        room = min(room, available - minimum)
        for each in active:
            current = changed.get(each["metadata"]["uid"], each)
            less = min(room, current["spec"]["replicas"])
            if less > 0:
                changed[each["metadata"]["uid"]] = await self._scale(
                    owner, current, current["spec"]["replicas"] - less
                )
                room -= less
        return changed

    async def _clean_up(self, owner: Obj, new: Obj | None, old: list[Obj]) -> None:
        """Delete the oldest empty ReplicaSets in excess of the history limit."""
        limit = owner["spec"].get("revisionHistoryLimit", 10)
        empty = [
            each for each in old if not each["spec"]["replicas"] and not _count(each, "replicas")
        ]
        if new is None or len(empty) <= limit:
            return
        for each in sorted(empty, key=_revision)[: len(empty) - limit]:
            meta = each["metadata"]
            await self._client.delete(SETS, meta["name"], meta["namespace"], uid=meta["uid"])
            self._sets.doom(each)

    async def _write_status(self, owner: Obj, new: Obj | None, old: list[Obj]) -> None:
        sets = [each for each in (new, *old) if each]
        before = owner.get("status") or {}
        counts = {
            "replicas": sum(_count(each, "replicas") for each in sets),
            "updatedReplicas": _count(new, "replicas") if new else 0,
            "readyReplicas": sum(_count(each, "readyReplicas") for each in sets),
            "availableReplicas": sum(_count(each, "availableReplicas") for each in sets),
        }
        missing = max(
            sum(each["spec"]["replicas"] for each in sets) - counts["availableReplicas"], 0
        )
        status: Obj = {name: value or None for name, value in counts.items()}
        status["unavailableReplicas"] = missing or None
        status["observedGeneration"] = owner["metadata"]["generation"]
        enough = owner["spec"]["replicas"] - self._unavailable(owner)
        status["conditions"], deadline = deployment_conditions(
            owner, new, counts, enough, counts_changed(before, counts)
        )
        if deadline is not None:
            self.note_after(max(deadline - time.time(), 0.1), owner)
        await write_status(self._client, RESOURCE, owner, status)


def counts_changed(before: Obj, counts: dict[str, int]) -> bool:
    """Return whether the counts differ from those in the written status."""
    return any((before.get(name) or 0) != value for name, value in counts.items())


def _count(target: Obj, name: str) -> int:
    return int((target.get("status") or {}).get(name) or 0)


def _revision(target: Obj) -> int:
    return int((target["metadata"].get("annotations") or {}).get(REVISION) or 0)
