# SPDX-License-Identifier: Apache-2.0
"""Watches over HTTP: one JSON object per line until the client disconnects or the watch ends."""

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

import orjson

from hybridlab.api.contract import ApiError, Event, Obj
from hybridlab.api.errors import bad_request, forbidden_field, options_invalid, status_of
from hybridlab.api.http.aio import web
from hybridlab.api.http.bodies import flag
from hybridlab.api.http.replies import STREAMING
from hybridlab.api.operations import Operations
from hybridlab.api.resources import Resource

BOOKMARK_SECONDS = 60.0
"""The interval, in seconds, between two bookmarks of a watch that allows bookmarks."""
_DEFAULT_SECONDS = (1800, 3600)
"""A watch without timeoutSeconds ends after a random time in this range, as on the real server."""
INITIAL_END = "k8s.io/initial-events-end"

Shown = Callable[[Obj], Obj]


def _line(kind: str, obj: Any) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


class _FallsSilent(Exception):
    """A fault silences a watch: it sends nothing any more, not even its end."""


async def _silent() -> None:
    """Stay open until the client disconnects, which cancels this task."""
    await asyncio.Event().wait()


class Watching:
    """Serves watches."""

    def __init__(
        self, operations: Operations, caught: Callable[[str | None], bool] = lambda namespace: False
    ) -> None:
        """Set up the watches. ``caught`` is called with a watch's namespace before the watch sends
        an event or ends; it returns whether a fault silences this watch for good."""
        self._operations = operations
        self._caught = caught

    async def serve(
        self, request: web.BaseRequest, resource: Resource, namespace: str | None, show: Shown
    ) -> web.StreamResponse:
        """Answer a watch request; ``show`` converts events to the form that the client
        requested."""
        query = request.query
        labels = query.get("labelSelector", "")
        fields = query.get("fieldSelector", "")
        test = self._operations.test(resource, labels, fields)
        seconds = _seconds(query)
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        response.enable_chunked_encoding()
        since = query.get("resourceVersion", "")
        initial = flag(query, "sendInitialEvents")
        if initial and query.get("resourceVersionMatch") != "NotOlderThan":
            detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise options_invalid("ListOptions", forbidden_field("resourceVersionMatch", detail))
        try:
            listed: list[Obj] = []
            if since in {"", "0"} or initial:
                listed, since = self._operations.select(resource, namespace, labels, fields)
            position = self._operations.position(resource, since)
        except ApiError as error:
            if error.code != 410:
                raise
            await response.prepare(request)
            await response.write(_line("ERROR", status_of(error)))
            await response.write_eof()
            return response
        await response.prepare(request)
        request[STREAMING] = True
        bookmarks = flag(query, "allowWatchBookmarks")
        first = b"".join(_line("ADDED", show(obj)) for obj in listed)
        if initial and bookmarks:
            first += self._bookmark(resource, since, {INITIAL_END: "true"})
        if first:
            await response.write(first)
        try:
            async with asyncio.timeout(seconds):
                events = self._operations.watch(resource, namespace, position, test)
                async with aclosing(events) as batches:  # type: ignore[type-var]
                    await self._send(
                        response, resource, namespace, batches, show, bookmarks=bookmarks
                    )
        except TimeoutError:
            if self._caught(namespace):
                await _silent()
        except _FallsSilent:
            await _silent()
        except ApiError as error:
            await response.write(_line("ERROR", status_of(error)))
        await response.write_eof()
        return response

    async def _send(
        self,
        response: web.StreamResponse,
        resource: Resource,
        namespace: str | None,
        batches: Any,
        show: Shown,
        *,
        bookmarks: bool,
    ) -> None:
        """Send events until the watch ends. Raise _FallsSilent if a fault silences the watch."""
        pending: asyncio.Task[list[Event]] | None = None
        try:
            while True:
                pending = pending or asyncio.ensure_future(anext(batches))
                caught_up = str(self._operations.store.revision)
                done, _ = await asyncio.wait({pending}, timeout=BOOKMARK_SECONDS)
                if (done or bookmarks) and self._caught(namespace):
                    raise _FallsSilent
                if not done:
                    if bookmarks:
                        await response.write(self._bookmark(resource, caught_up, {}))
                    continue
                events = pending.result()
                pending = None
                await response.write(
                    b"".join(_line(event.type, show(event.object)) for event in events)
                )
        finally:
            if pending is not None:
                pending.cancel()
                await asyncio.gather(pending, return_exceptions=True)

    @staticmethod
    def _bookmark(resource: Resource, revision: str, annotations: Mapping[str, str]) -> bytes:
        metadata: Obj = {"resourceVersion": revision, "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = dict(annotations)
        return _line(
            "BOOKMARK",
            {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata},
        )


def _seconds(query: Mapping[str, str]) -> float:
    text = query.get("timeoutSeconds", "")
    if not text:
        return random.uniform(*_DEFAULT_SECONDS)
    try:
        return float(int(text))
    except ValueError:
        raise bad_request(f'timeoutSeconds: Invalid value: "{text}": must be a number') from None
