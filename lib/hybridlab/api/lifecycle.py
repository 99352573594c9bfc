# SPDX-License-Identifier: Apache-2.0
"""The deletion of objects: grace, finalizers, dependents of a deleted owner, namespaces with their
content.

A delete only ever removes a single object. Its consequences (dependents, a namespace's content) are
queued and done in small steps from the event loop, as the real cluster's controllers do them after
the answer is sent.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.errors import conflict, forbidden, not_found
from hybridlab.api.kinds.strategy import Strategy
from hybridlab.api.requests import DeleteOptions
from hybridlab.api.store import Change, Key, Store

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_MODIFIED = "The object might have been modified"
_STEPS_AT_ONCE = 64
"""The number of queued deletions that are done before other work gets a turn: about a millisecond.
"""


def timestamp(offset_seconds: int = 0) -> str:
    """Return the time as metadata has it: whole seconds, UTC."""
    return (datetime.now(UTC) + timedelta(seconds=offset_seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def without(items: list[Any], value: object) -> list[Any]:
    """Return a copy of ``items`` without ``value``."""
    return [item for item in items if item != value]


def _marked(obj: Obj) -> Obj:
    """Return an object in the state that it has once its deletion has begun without a grace
    period."""
    meta = {**obj["metadata"], "deletionGracePeriodSeconds": 0}
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = timestamp()
        if "generation" in meta:
            meta["generation"] += 1
    return {**obj, "metadata": meta}


def _has_content(storage: str, obj: Obj) -> bool:
    """Return whether an object is a namespace that still has to be emptied."""
    return storage == "namespaces" and bool((obj.get("spec") or {}).get("finalizers"))


def _ending(storage: str, obj: Obj, meta: Obj, grace: int) -> Obj | None:
    """Return an object, with ``meta`` as its metadata, in its state after a delete that must wait;
    return None if the delete changes nothing.

    ``grace``: how long the deletion waits, in seconds.
    """
    deleting = "deletionTimestamp" in meta
    shorter = deleting and grace < meta.get("deletionGracePeriodSeconds", 0)
    if deleting and not shorter and meta.get("finalizers") == obj["metadata"].get("finalizers"):
        return None
    if not deleting or shorter:
        meta["deletionTimestamp"] = timestamp(grace)
        meta["deletionGracePeriodSeconds"] = grace
    if "generation" in meta and not deleting:
        meta["generation"] += 1
    changed = {**obj, "metadata": meta}
    if storage == "namespaces" and not deleting:
        changed["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        del meta["deletionGracePeriodSeconds"]
    return changed


_SINCE = "lastTransitionTime"


def ending_conditions(content: Mapping[str, int], finalizers: Mapping[str, int]) -> list[Obj]:
    """Return the conditions of a namespace that is being deleted: the number of objects of each
    resource, and of each finalizer."""
    listed = ", ".join(
        f"{name} has {count} resource instances" for name, count in sorted(content.items())
    )
    held = ", ".join(
        f"{name} in {count} resource instances" for name, count in sorted(finalizers.items())
    )
    rows = [
        (
            "NamespaceDeletionDiscoveryFailure",
            False,
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            False,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            False,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            bool(content),
            "SomeResourcesRemain" if content else "ContentRemoved",
            f"Some resources are remaining: {listed}"
            if content
            else "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            bool(finalizers),
            "SomeFinalizersRemain" if finalizers else "ContentHasNoFinalizers",
            f"Some content in the namespace has finalizers remaining: {held}"
            if finalizers
            else "All content-preserving finalizers finished",
        ),
    ]
    now = timestamp()
    return [
        {"type": kind, "status": str(true), _SINCE: now, "reason": reason, "message": message}
        for kind, true, reason, message in rows
    ]


class Lifecycle:
    """Deletes objects and everything that must go with them."""

    def __init__(self, store: Store, strategies: Callable[[str], Strategy]) -> None:
        self._store = store
        self._strategies = strategies
        self._queue: deque[Callable[[], None]] = deque()
        self._scheduled = False
        self._terminating: set[str] = set()
        store.listeners.append(self._on_change)

    def delete(self, storage: str, key: Key, options: DeleteOptions) -> tuple[Obj, bool]:
        """Delete an object; return its last state and whether it is already removed."""
        plural, _, group = storage.partition(".")
        obj = self._store.bucket(storage).get(key)
        if obj is None:
            raise not_found(plural, group, key[1])
        strategy = self._strategies(storage)
        self._check_preconditions(obj, options, group)
        self._check_deletable(strategy, obj, options, plural, group)
        meta = dict(obj["metadata"])
        if "deletionTimestamp" in meta and _has_content(storage, obj):
            return obj, False
        grace = strategy.grace_seconds(obj, options.grace_period_seconds)
        finalizers = list(meta.get("finalizers") or ())
        if options.propagation == "Foreground" and FOREGROUND not in finalizers:
            finalizers.append(FOREGROUND)
            meta["finalizers"] = finalizers
        if grace == 0 and not finalizers and storage != "namespaces":
            if options.propagation == "Orphan":
                return self._release(storage, obj, options), False
            return self._remove(storage, key, obj, options), True
        changed = _ending(storage, obj, meta, grace)
        if changed is None:
            return obj, False
        if not options.dry_run:
            if options.propagation == "Orphan":
                self._orphan(meta["uid"])
            self._store.put(storage, changed)
            if FOREGROUND in finalizers:
                self.later(lambda: self._foreground(storage, key, meta["uid"]))
        return changed, False

    def _remove(self, storage: str, key: Key, obj: Obj, options: DeleteOptions) -> Obj:
        """Remove an object that nothing keeps from being deleted; return its last state."""
        if self._strategies(storage).ends_in_two_steps:
            begun = "deletionTimestamp" in obj["metadata"]
            obj = _marked(obj)
            if not begun and not options.dry_run:
                self._store.put(storage, obj)
        if options.dry_run:
            return obj
        version = self._store.remove(storage, key)["metadata"]["resourceVersion"]
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}

    def _release(self, storage: str, obj: Obj, options: DeleteOptions) -> Obj:
        """Mark an object that is deleted without its dependents. Soon the dependents no longer name
        the object as their owner; after that, it is removed."""
        marked = _marked(obj)
        marked["metadata"]["finalizers"] = [*(obj["metadata"].get("finalizers") or ()), ORPHAN]
        if not options.dry_run:
            self._store.put(storage, marked)
            self.later(lambda: self._finish_orphans(storage, marked["metadata"]["uid"]))
        return marked

    def _finish_orphans(self, storage: str, uid: str) -> None:
        place = self._store.place_of(uid)
        if place is None:
            return
        self._orphan(uid)
        obj = self._store.bucket(storage).objects[place[1]]
        finalizers = without(obj["metadata"].get("finalizers") or [], ORPHAN)
        freed = {**obj, "metadata": {**obj["metadata"], "finalizers": finalizers}}
        if not self.finish(storage, freed):
            self._store.put(storage, freed)

    @staticmethod
    def _check_deletable(
        strategy: Strategy, obj: Obj, options: DeleteOptions, plural: str, group: str
    ) -> None:
        name = obj["metadata"]["name"]
        if name in strategy.protected:
            raise forbidden(plural, group, name, "this namespace may not be deleted")
        if not options.dry_run:
            strategy.check_delete(obj)

    @staticmethod
    def _check_preconditions(obj: Obj, options: DeleteOptions, group: str) -> None:
        meta = obj["metadata"]
        kind = obj["kind"]
        uid = options.uid
        version = options.resource_version
        if uid and uid != meta["uid"]:
            why = f"the UID in the precondition ({uid}) does not match the UID in record ({meta['uid']})."
            hint = "The object might have been deleted and then recreated"
            raise conflict(kind, group, meta["name"], f"{why} {hint}")
        if version and version != meta["resourceVersion"]:
            why = f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record"
            raise conflict(
                kind, group, meta["name"], f"{why} ({meta['resourceVersion']}). {_MODIFIED}"
            )

    def finish(self, storage: str, obj: Obj) -> bool:
        """Remove an object that is being deleted and has no finalizers any more; return whether
        it was removed.
        """
        meta = obj["metadata"]
        if (
            "deletionTimestamp" not in meta
            or meta.get("finalizers")
            or meta.get("deletionGracePeriodSeconds")
            or _has_content(storage, obj)
        ):
            return False
        self._store.remove(storage, (meta.get("namespace", ""), meta["name"]))
        return True

    def adopt_check(self, storage: str, obj: Obj) -> None:
        """Queue the deletion of a new object if all its owners are gone already."""
        owners = obj["metadata"].get("ownerReferences")
        if owners and not any(self._store.has_uid(owner["uid"]) for owner in owners):
            key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            self.later(lambda: self._collect(storage, key))

    def _on_change(self, storage: str, key: Key, change: Change) -> None:
        if storage == "namespaces":
            if change.type == "DELETED":
                self._terminating.discard(key[1])
            elif (
                "deletionTimestamp" in change.object["metadata"] and key[1] not in self._terminating
            ):
                self._terminating.add(key[1])
                self.later(lambda: self._empty_namespace(key[1]))
            return
        if change.type != "DELETED":
            return
        if key[0] in self._terminating:
            self.later(lambda: self._finish_namespace(key[0]))
        for place in self._store.dependents(change.object["metadata"]["uid"]):
            self.later(lambda place=place: self._collect(*place))  # type: ignore[misc]
        for owner in change.object["metadata"].get("ownerReferences") or ():
            self.later(lambda owner=owner: self._after_dependent(owner["uid"]))  # type: ignore[misc]

    def later(self, step: Callable[[], None]) -> None:
        """Do a small step soon, after the request that caused it."""
        self._queue.append(step)
        if self._scheduled:
            return
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        self._scheduled = False
        for _ in range(_STEPS_AT_ONCE):
            if not self._queue:
                return
            self._queue.popleft()()
        if self._queue and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._work)

    def _collect(self, storage: str, key: Key) -> None:
        """Delete a dependent if all its owners are gone; otherwise remove its references to owners
        that are gone."""
        obj = self._store.bucket(storage).get(key)
        if obj is None:
            return
        owners = obj["metadata"].get("ownerReferences") or []
        alive = [owner for owner in owners if self._store.has_uid(owner["uid"])]
        if owners and not alive:
            self.delete(storage, key, DeleteOptions())
        elif len(alive) < len(owners):
            self._store.put(
                storage, {**obj, "metadata": {**obj["metadata"], "ownerReferences": alive}}
            )

    def _orphan(self, uid: str) -> None:
        for storage, key in self._store.dependents(uid):
            obj = self._store.bucket(storage).objects[key]
            meta = dict(obj["metadata"])
            meta["ownerReferences"] = [
                owner for owner in meta["ownerReferences"] if owner["uid"] != uid
            ]
            if not meta["ownerReferences"]:
                del meta["ownerReferences"]
            self._store.put(storage, {**obj, "metadata": meta})

    def _foreground(self, storage: str, key: Key, uid: str) -> None:
        """Delete the dependents of an owner that waits for them; delete the owner once no dependent
        blocks it."""
        obj = self._store.bucket(storage).get(key)
        if obj is None or obj["metadata"]["uid"] != uid:
            return
        blocking = False
        for place in self._store.dependents(uid):
            dependent = self._store.bucket(place[0]).objects[place[1]]
            owners = dependent["metadata"]["ownerReferences"]
            blocking |= any(
                owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners
            )
            if "deletionTimestamp" not in dependent["metadata"]:
                self.delete(*place, DeleteOptions(propagation="Foreground"))
        if not self._store.dependents(uid) or not blocking:
            meta = {
                **obj["metadata"],
                "finalizers": without(obj["metadata"].get("finalizers") or [], FOREGROUND),
            }
            if not meta["finalizers"]:
                del meta["finalizers"]
            freed = {**obj, "metadata": meta}
            if not self.finish(storage, freed):
                self._store.put(storage, freed)

    def _after_dependent(self, uid: str) -> None:
        place = self._store.place_of(uid)
        if place is None:
            return
        owner = self._store.bucket(place[0]).objects[place[1]]
        if FOREGROUND in (owner["metadata"].get("finalizers") or ()):
            self._foreground(*place, uid)

    def _tell_what_remains(self, namespace: Obj) -> None:
        """Record in the conditions of a namespace that is being deleted which objects and
        finalizers are left in it."""
        name = namespace["metadata"]["name"]
        content: dict[str, int] = {}
        finalizers: dict[str, int] = {}
        for storage, bucket in self._store.buckets():
            for obj in bucket.within(name) if storage != "namespaces" else ():
                plural, _, group = storage.partition(".")
                content[f"{plural}.{group}"] = content.get(f"{plural}.{group}", 0) + 1
                for finalizer in obj["metadata"].get("finalizers") or ():
                    finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
        status = namespace.get("status") or {}
        before = {item["type"]: item for item in status.get("conditions") or ()}
        conditions = [
            item if known is None or {**item, _SINCE: ""} != {**known, _SINCE: ""} else known
            for item in ending_conditions(content, finalizers)
            for known in (before.get(item["type"]),)
        ]
        if conditions != (status.get("conditions") or []):
            changed = {**status, "conditions": conditions}
            self._store.put(
                "namespaces",
                {**namespace, "metadata": dict(namespace["metadata"]), "status": changed},
            )

    def _empty_namespace(self, namespace: str) -> None:
        for storage, bucket in self._store.buckets():
            for obj in bucket.within(namespace) if storage != "namespaces" else ():
                key = (namespace, obj["metadata"]["name"])
                self.later(lambda place=(storage, key): self._delete_if_there(*place))  # type: ignore[misc]
        self.later(lambda: self._finish_namespace(namespace))

    def _delete_if_there(self, storage: str, key: Key) -> None:
        if self._store.bucket(storage).get(key) is not None:
            self.delete(storage, key, DeleteOptions())

    def _finish_namespace(self, namespace: str) -> None:
        """Finish the deletion of a namespace if it is empty; otherwise record what is left."""
        obj = self._store.bucket("namespaces").get(("", namespace))
        if obj is None or "deletionTimestamp" not in obj["metadata"]:
            return
        if any(bucket.in_namespace(namespace) for _, bucket in self._store.buckets()):
            # if more deletions are queued, the conditions would change again at once
            if not self._queue:
                self._tell_what_remains(obj)
            return
        spec: Mapping[str, Any] = obj.get("spec") or {}
        others = without(list(spec.get("finalizers") or ()), "kubernetes")
        freed = {**obj, "metadata": dict(obj["metadata"]), "spec": {**spec, "finalizers": others}}
        if not self.finish("namespaces", freed) and freed != obj:
            self._store.put("namespaces", freed)
