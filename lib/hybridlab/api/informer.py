# SPDX-License-Identifier: Apache-2.0
"""A cache of objects kept up to date by list and watch, with handlers: the way in which components
follow the cluster.

It uses only :class:`hybridlab.api.contract.Client`. Handlers are plain functions called in order,
one event at a time, on the event loop; they must not block. An exception in a handler ends the
informer (``run`` raises it).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, suppress
from typing import Any

from hybridlab.api.contract import ApiError, Client, Obj

Handler = Callable[[Obj], None]
UpdateHandler = Callable[[Obj, Obj], None]
Key = tuple[str, str]


def key_of(obj: Obj) -> Key:
    """Return an object's namespace (empty if it has none) and its name."""
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


class Informer:
    """A follower of the objects of a resource.

    ``resource``, ``namespace``, ``labels`` and ``fields`` have the same meaning as in
    :class:`Client`. Use ``async with``, or run ``run()`` in a task. After a 410, the informer lists
    again and calls the handlers for the differences.
    """

    def __init__(
        self,
        client: Client,
        resource: str,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
    ) -> None:
        self.resource = resource
        self._client = client
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._objects: dict[Key, Obj] = {}
        self._handlers: list[tuple[Handler | None, UpdateHandler | None, Handler | None]] = []
        self._synced = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._changed: set[asyncio.Future[None]] = set()

    def get(self, name: str, namespace: str = "") -> Obj | None:
        """Return a cached object, or None."""
        return self._objects.get((namespace, name))

    def objects(self) -> Iterable[Obj]:
        return list(self._objects.values())

    def __iter__(self) -> Iterator[Obj]:
        return iter(list(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    async def wait_synced(self) -> None:
        """Wait until the first list has been handled. Raise the error that ended the informer
        before that."""
        if self._task is None:
            await self._synced.wait()
            return
        waiting = asyncio.ensure_future(self._synced.wait())
        try:
            await asyncio.wait({waiting, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if not self._synced.is_set():
                await self._task
        finally:
            waiting.cancel()

    async def wait_for(self, test: Callable[[Informer], bool]) -> None:
        """Wait, without a time limit, until ``test`` returns true for this cache."""
        while not test(self):
            waiter = asyncio.get_running_loop().create_future()
            self._changed.add(waiter)
            try:
                await waiter
            finally:
                self._changed.discard(waiter)

    def on(
        self,
        added: Handler | None = None,
        updated: UpdateHandler | None = None,
        deleted: Handler | None = None,
    ) -> None:
        """Call ``added(new)``, ``updated(old, new)``, ``deleted(last)``; ``added`` is called at
        once for cached objects."""
        self._handlers.append((added, updated, deleted))
        if added is not None:
            for obj in list(self._objects.values()):
                added(obj)

    def on_change(self, handler: Handler) -> None:
        """Call ``handler(object)`` for every change of an object, including its deletion."""
        self.on(handler, lambda old, new: handler(new), handler)

    async def start(self) -> None:
        """Run in the background until :meth:`stop`."""
        if self._task is None:
            self._task = asyncio.create_task(self.run(), name=f"informer {self.resource}")

    async def stop(self) -> None:
        """Stop following; an error that ended the informer earlier is raised here."""
        task = self._task
        self._task = None
        if task is None:
            return
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def __aenter__(self) -> Informer:
        await self.start()
        await self.wait_synced()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.stop()

    async def run(self) -> None:
        """Until cancelled, list and watch the objects, and list them again whenever the watch is
        too far behind."""
        while True:
            items, since = await self._client.list(
                self.resource, self._namespace, labels=self._labels, fields=self._fields
            )
            self._replace(items)
            self._synced.set()
            try:
                watch = self._client.watch(
                    self.resource,
                    self._namespace,
                    since=since,
                    labels=self._labels,
                    fields=self._fields,
                )
                async with aclosing(watch) as events:  # type: ignore[type-var]
                    async for event in events:
                        if event.type == "DELETED":
                            self._drop(event.object)
                        elif event.type != "BOOKMARK":
                            self._put(event.object)
            except ApiError as error:
                if error.code != 410:
                    raise

    def _replace(self, items: list[Obj]) -> None:
        present = {key_of(item) for item in items}
        for key, obj in list(self._objects.items()):
            if key not in present:
                self._drop(obj)
        for item in items:
            self._put(item)
        self._wake()

    def _put(self, obj: Obj) -> None:
        key = key_of(obj)
        old = self._objects.get(key)
        if old is obj:
            return
        self._objects[key] = obj
        if old is not None and old["metadata"].get("uid") != obj["metadata"].get("uid"):
            self._call_deleted(old)
            old = None
        for added, updated, _ in self._handlers:
            if old is None:
                if added is not None:
                    added(obj)
            elif updated is not None:
                updated(old, obj)
        self._wake()

    def _drop(self, obj: Obj) -> None:
        if self._objects.pop(key_of(obj), None) is not None:
            self._call_deleted(obj)
            self._wake()

    def _call_deleted(self, obj: Obj) -> None:
        for _, _, deleted in self._handlers:
            if deleted is not None:
                deleted(obj)

    def _wake(self) -> None:
        for waiter in self._changed:
            if not waiter.done():
                waiter.set_result(None)
        self._changed.clear()
