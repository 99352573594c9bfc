# SPDX-License-Identifier: Apache-2.0
"""Events as components report them: written in the background; for a repeated event the count is
increased."""

import asyncio
import logging
import secrets
from collections import deque
from typing import Literal

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.controllers.times import micro_timestamp, timestamp

logger = logging.getLogger(__name__)

REMEMBERED = 4096
"""The number of different events that are remembered for counting."""


class Recorder:
    """Writes events of all components in order; never makes a component wait."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._queue: deque[tuple[tuple[str, ...], Obj]] = deque()
        self._wake = asyncio.Event()
        self._written: dict[tuple[str, ...], tuple[str, str, int]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="events")

    async def stop(self) -> None:
        """Stop writing; events that have not been written are lost."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def record(
        self,
        about: Obj,
        reason: str,
        message: str,
        *,
        component: str,
        host: str = "",
        type: Literal["Normal", "Warning"] = "Normal",
        field_path: str = "",
    ) -> None:
        """Report one event about an object (which must have apiVersion and kind)."""
        meta = about["metadata"]
        reference = {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": meta["name"],
            "uid": meta["uid"],
            "resourceVersion": meta.get("resourceVersion", ""),
        }
        if meta.get("namespace"):
            reference["namespace"] = meta["namespace"]
        if field_path:
            reference["fieldPath"] = field_path
        now = timestamp()
        source = {"component": component, **({"host": host} if host else {})}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{meta['name']}.{secrets.token_hex(8)}",
                "namespace": meta.get("namespace") or "default",
            },
            "involvedObject": reference,
            "reason": reason,
            "message": message,
            "type": type,
            "source": source,
            "reportingComponent": component,
            "reportingInstance": host,
            "eventTime": micro_timestamp(),  # the official client's events.k8s.io model requires it
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        key = (meta["uid"], type, reason, message, component, field_path)
        self._queue.append((key, event))
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                key, event = self._queue.popleft()
                try:
                    await self._write(key, event)
                # the event's namespace is being deleted, or the API refuses the event: events may
                # be lost
                except ApiError as error:
                    logger.debug(
                        "event %s about %s could not be written: %s", event["reason"], key[0], error
                    )
                await asyncio.sleep(0)  # let the work for pods go first

    async def _write(self, key: tuple[str, ...], event: Obj) -> None:
        known = self._written.get(key)
        if known:
            namespace, name, count = known
            change = {"count": count + 1, "lastTimestamp": event["lastTimestamp"]}
            try:
                await self._client.patch("events", name, change, namespace)
                self._written[key] = (namespace, name, count + 1)
                return
            except ApiError as error:
                if error.code != 404:
                    raise
        namespace = event["metadata"]["namespace"]
        name = event["metadata"]["name"]
        await self._client.create("events", event, namespace)
        self._written[key] = (namespace, name, 1)
        if len(self._written) > REMEMBERED:
            del self._written[next(iter(self._written))]
