# SPDX-License-Identifier: Apache-2.0
"""The objects of the cluster, and their latest changes.

Objects are immutable once stored: every change puts a new object in place of the old object, so
readers share them freely and a watch event costs no copy. A single counter gives every change its
resourceVersion. Each stored kind has a bucket with a limited log of its last changes. A watcher is
a position in that log, not a queue, so a slow watcher costs nothing. It gets 410 once the log no
longer contains its position.

The store checks nothing: rules are in ``operations``. The store is used from a single event loop.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from hybridlab.api.contract import Obj
from hybridlab.api.errors import expired

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""

HISTORY = 4096
"""The minimum number of changes that a bucket keeps. When a bucket has twice this number, the older
half is dropped.

This is enough for the updates of 200 pods that start at once; a watcher that is further behind
lists again.
"""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an object."""

    revision: int
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Obj
    """The object after the change; for a deleted object, its last state with the deletion's
    resourceVersion."""
    previous: Obj | None


class Bucket:
    """All objects of a stored kind."""

    def __init__(self, history: int) -> None:
        self.objects: dict[Key, Obj] = {}
        self._by_namespace: dict[str, dict[str, Obj]] = {}
        self._log: list[Change] = []
        self._revisions: list[int] = []
        self._dropped = 0
        self._floor = 0
        self._history = history
        self._waiting: set[asyncio.Future[None]] = set()

    def get(self, key: Key) -> Obj | None:
        return self.objects.get(key)

    def within(self, namespace: str | None) -> list[Obj]:
        """Return the objects of a namespace (None: all), ordered by namespace and name."""
        if namespace is None:
            return [self.objects[key] for key in sorted(self.objects)]
        names = self._by_namespace.get(namespace)
        return [names[name] for name in sorted(names)] if names else []

    def in_namespace(self, namespace: str) -> bool:
        """Return whether the bucket contains an object of this namespace."""
        return bool(self._by_namespace.get(namespace))

    def record(self, key: Key, change: Change) -> None:
        """Apply a change, log it and wake the watchers."""
        namespace, name = key
        if change.type == "DELETED":
            self.objects.pop(key, None)
            names = self._by_namespace.get(namespace)
            if names is not None:
                names.pop(name, None)
                if not names:
                    del self._by_namespace[namespace]
        else:
            self.objects[key] = change.object
            self._by_namespace.setdefault(namespace, {})[name] = change.object
        self._log.append(change)
        self._revisions.append(change.revision)
        if len(self._log) > 2 * self._history:
            self._floor = self._revisions[self._history - 1]
            del self._log[: self._history], self._revisions[: self._history]
            self._dropped += self._history
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()

    def position(self, since: int) -> int:
        """Return the place in the log right after revision ``since``; raise ApiError 410 if
        the log no longer contains it."""
        if since < self._floor:
            raise expired(f"too old resource version: {since} ({self._floor})")
        return self._dropped + bisect_right(self._revisions, since)

    def after(self, position: int) -> tuple[list[Change], int]:
        """Return the changes from ``position`` on and the next position; raise ApiError 410 if the
        log no longer contains them."""
        start = position - self._dropped
        if start < 0:
            raise expired(
                f"too old resource version: the watch fell more than {self._history} changes behind"
            )
        changes = self._log[start:]
        return changes, position + len(changes)

    async def changed(self) -> None:
        """Wait for the next change."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)


class Store:
    """All buckets, the revision counter, and the index from owners to their dependents."""

    def __init__(self, history: int = HISTORY) -> None:
        self.revision = 1
        self._history = history
        self._buckets: dict[str, Bucket] = {}
        self._dependents: dict[str, set[tuple[str, Key]]] = {}
        self._by_uid: dict[str, tuple[str, Key]] = {}
        self.listeners: list[Callable[[str, Key, Change], None]] = []
        """Functions that are called synchronously after each change; they must not write to the
        store."""

    def bucket(self, storage: str) -> Bucket:
        """Return the bucket of a stored kind; it is made on first use."""
        found = self._buckets.get(storage)
        if found is None:
            found = self._buckets[storage] = Bucket(self._history)
        return found

    def buckets(self) -> Iterator[tuple[str, Bucket]]:
        return iter(list(self._buckets.items()))

    def put(self, storage: str, obj: Obj) -> Obj:
        """Store ``obj``, with metadata that the caller owns, under the next revision and return
        it."""
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        bucket = self.bucket(storage)
        previous = bucket.get(key)
        self.revision += 1
        meta["resourceVersion"] = str(self.revision)
        change = Change(self.revision, "MODIFIED" if previous else "ADDED", obj, previous)
        self._index(storage, key, obj, previous)
        bucket.record(key, change)
        for listener in self.listeners:
            listener(storage, key, change)
        return obj

    def remove(self, storage: str, key: Key) -> Obj:
        """Remove an object and return its last state under the deletion's revision."""
        bucket = self.bucket(storage)
        previous = bucket.objects[key]
        self.revision += 1
        last = {
            **previous,
            "metadata": {**previous["metadata"], "resourceVersion": str(self.revision)},
        }
        change = Change(self.revision, "DELETED", last, previous)
        self._index(storage, key, None, previous)
        bucket.record(key, change)
        for listener in self.listeners:
            listener(storage, key, change)
        return last

    def _index(self, storage: str, key: Key, obj: Obj | None, previous: Obj | None) -> None:
        place = (storage, key)
        old = previous["metadata"].get("ownerReferences") if previous else None
        new = obj["metadata"].get("ownerReferences") if obj else None
        if old != new:
            for owner in old or ():
                places = self._dependents.get(owner["uid"], set())
                places.discard(place)
                if not places:
                    self._dependents.pop(owner["uid"], None)
            for owner in new or ():
                self._dependents.setdefault(owner["uid"], set()).add(place)
        if obj is None and previous is not None:
            self._by_uid.pop(previous["metadata"]["uid"], None)
        elif obj is not None and previous is None:
            self._by_uid[obj["metadata"]["uid"]] = place

    def dependents(self, uid: str) -> list[tuple[str, Key]]:
        """Return the places of the objects that name ``uid`` as an owner."""
        return sorted(self._dependents.get(uid, ()))

    def place_of(self, uid: str) -> tuple[str, Key] | None:
        """Return the place of the object with this uid, or None."""
        return self._by_uid.get(uid)

    def has_uid(self, uid: str) -> bool:
        """Return whether an object with this uid exists."""
        return uid in self._by_uid
