# SPDX-License-Identifier: Apache-2.0
"""A queue of keys to process: a key that is noted several times is processed once; a key that fails
is processed again with back-off."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from hybridlab.api.contract import ApiError, Client, Obj

logger = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)

FIRST_RETRY = 0.02
"""The pause, in seconds, before the first retry; it doubles with every failure. It is short, since
outdated reads are corrected within milliseconds."""
LAST_RETRY = 10.0
"""The longest pause, in seconds, before a retry."""


class Work(Generic[Key]):
    """Runs ``look(key)`` for every noted key: for several keys in parallel, but never twice at once
    for the same key."""

    def __init__(
        self,
        name: str,
        look: Callable[[Key], Awaitable[None]],
        *,
        workers: int = 8,
        delay: float = 0.0,
    ) -> None:
        """Set up the queue. ``delay``: seconds to wait after a key is noted, so that a burst of
        changes is processed once."""
        self.name = name
        self._look = look
        self._limit = workers
        self._delay = delay
        self._noted: dict[Key, None] = {}
        self._busy: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._running = False

    def start(self) -> None:
        """Begin to process noted keys."""
        self._running = True
        self._pump()

    async def stop(self) -> None:
        """Stop; work under way is cancelled."""
        self._running = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def note(self, key: Key) -> None:
        """Process ``key`` soon; if it is being processed right now, process it once more."""
        if self._delay:
            self.note_after(self._delay, key)
        else:
            self._ready(key)

    def note_after(self, seconds: float, key: Key) -> None:
        """Process ``key`` after this time, or earlier if an earlier time is set already."""
        if not self._running:
            self._noted[key] = None
            return
        if key in self._noted:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._ready, key)

    def _ready(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer:
            timer.cancel()
        self._noted[key] = None
        self._pump()

    def _pump(self) -> None:
        if not self._running or not self._noted:
            return
        for key in list(self._noted):
            if len(self._tasks) >= self._limit:
                return
            if key in self._busy:
                continue
            del self._noted[key]
            self._busy.add(key)
            task = asyncio.create_task(self._once(key), name=f"{self.name} {key}")
            self._tasks.add(task)
            task.add_done_callback(self._done)

    async def _once(self, key: Key) -> None:
        try:
            await self._look(key)
            self._failures.pop(key, None)
        except Exception as error:  # an error with one key must not end the controller
            count = self._failures.get(key, 0)
            self._failures[key] = count + 1
            expected = isinstance(error, ApiError) and _passes(error)
            log = logger.debug if expected else logger.exception
            log("%s: %s failed (try %d): %s", self.name, key, count + 1, error)
            if self._running:
                self.note_after(min(FIRST_RETRY * 2.0 ** min(count, 20), LAST_RETRY), key)
        finally:
            self._busy.discard(key)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._pump()


def _passes(error: ApiError) -> bool:
    """Return whether an error is expected in normal operation: an object changed, or its namespace
    is being deleted."""
    causes = error.details.get("causes") or ()
    ending = any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
    return error.code in {404, 409, 429} or (error.code == 403 and ending)


class Controller:
    """A component that only processes its queue: it starts and stops with the queue."""

    work: Work[tuple[str, str]]

    def note(self, obj: Obj | None, _before: Obj | None = None) -> None:
        """Note an object for processing. A controller subscribes this method to its cache."""
        if obj:
            self.work.note(_key(obj))

    def note_after(self, seconds: float, obj: Obj) -> None:
        """Queue an object, to be processed in ``seconds`` seconds."""
        self.work.note_after(seconds, _key(obj))

    def start(self) -> None:
        self.work.start()

    async def stop(self) -> None:
        await self.work.stop()


def _key(obj: Obj) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


async def write_status(client: Client, resource: str, obj: Obj, status: Obj) -> None:
    """Write the status of an object, unless it has these values already."""
    before = obj.get("status") or {}
    if any(before.get(name) != value for name, value in status.items()):
        namespace, name = _key(obj)
        await client.patch(resource, name, {"status": status}, namespace, subresource="status")
