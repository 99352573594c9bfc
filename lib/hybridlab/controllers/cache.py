# SPDX-License-Identifier: Apache-2.0
"""Shared informers: one list and one watch per resource for the whole control plane.

Handlers run synchronously, in the order of the changes, and may only record the work to be done
(see ``work``).
"""

import asyncio
import logging
from collections.abc import Callable, Iterator

from hybridlab.api.contract import Client, Obj
from hybridlab.api.informer import Informer, key_of

logger = logging.getLogger(__name__)

Handler = Callable[[Obj | None, Obj | None], None]
"""Called with (object now, object before): (new, None) added, (new, old) changed, (None, old) deleted."""


class Cache:
    """The objects of a resource, indexed by namespace and kept current by an informer."""

    def __init__(self, client: Client, resource: str) -> None:
        self.resource = resource
        self.informer = Informer(client, resource)
        self._by_namespace: dict[str, dict[str, Obj]] = {}
        self.informer.on(self._put, lambda _, new: self._put(new), self._drop)

    def get(self, namespace: str, name: str) -> Obj | None:
        """Return the object, or None; ``namespace`` is empty for cluster-scoped resources."""
        return self.informer.get(name, namespace)

    def within(self, namespace: str) -> list[Obj]:
        return list(self._by_namespace.get(namespace, {}).values())

    def __iter__(self) -> Iterator[Obj]:
        return iter(self.informer)

    def subscribe(self, handler: Handler) -> None:
        """Call ``handler`` for every change from now on, and at once for existing objects.

        A handler that raises is reported and skipped, so that other components still get the
        change.
        """

        def guarded(obj: Obj | None, before: Obj | None) -> None:
            try:
                handler(obj, before)
            except Exception:
                logger.exception("a handler of %s failed", self.resource)

        self.informer.on(
            lambda new: guarded(new, None),
            lambda old, new: guarded(new, old),
            lambda last: guarded(None, last),
        )

    def _put(self, obj: Obj) -> None:
        namespace, name = key_of(obj)
        self._by_namespace.setdefault(namespace, {})[name] = obj

    def _drop(self, obj: Obj) -> None:
        namespace, name = key_of(obj)
        names = self._by_namespace.get(namespace, {})
        names.pop(name, None)
        if not names:
            self._by_namespace.pop(namespace, None)


class Caches:
    """The caches of a control plane, created on first use and started together."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._caches: dict[str, Cache] = {}

    def of(self, resource: str) -> Cache:
        """Return the cache of a resource; resources have the names that :class:`Client` uses."""
        found = self._caches.get(resource)
        if found is None:
            found = self._caches[resource] = Cache(self.client, resource)
        return found

    async def start(self) -> None:
        """Start all caches that were requested so far; return when each has its first list."""
        for cache in self._caches.values():
            await cache.informer.start()
        await asyncio.gather(*(cache.informer.wait_synced() for cache in self._caches.values()))

    async def stop(self) -> None:
        """End all watches; raise the error that ended a watch earlier, if there is one."""
        for cache in self._caches.values():
            await cache.informer.stop()
