"""CalicoNodeStatus: calico-node fills those that ask for its own node, at once and then each period."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.api.informer import Informer


class NodeStatuses:
    """The reporters of all nodes of one cluster."""

    def __init__(self, client: Client, resource: str, told: Callable[[str], Mapping[str, Any] | None]) -> None:
        """``told``: what calico-node of a node says of BGP; None: it says nothing."""
        self._client, self._resource, self._told = client, resource, told
        self._informer = Informer(client, resource)
        self._informer.on(self._begin, None, self._end)
        self._reporters: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        await self._informer.start()

    async def stop(self) -> None:
        await self._informer.stop()
        for task in self._reporters.values():
            task.cancel()
        await asyncio.gather(*self._reporters.values(), return_exceptions=True)

    def _begin(self, obj: Obj) -> None:
        name, spec = obj["metadata"]["name"], obj["spec"]
        self._reporters[name] = asyncio.create_task(
            self._report(name, spec.get("node", ""), spec.get("updatePeriodSeconds") or 0), name=f"node status {name}"
        )

    def _end(self, obj: Obj) -> None:
        self._reporters.pop(obj["metadata"]["name"]).cancel()

    async def _report(self, name: str, node: str, period: int) -> None:
        while True:
            if told := self._told(node):
                status = {**told, "lastUpdated": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
                with suppress(ApiError):  # it is on its way out
                    await self._client.patch(self._resource, name, {"status": status}, subresource="status")
            if not period:
                return
            await asyncio.sleep(period)
