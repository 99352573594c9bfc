# SPDX-License-Identifier: Apache-2.0
"""CalicoNodeStatus: calico-node fills the objects of its own node, at once and then once per
period."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.api.informer import Informer, key_of


class NodeStatuses:
    """Fills the CalicoNodeStatus objects of all nodes of a cluster."""

    def __init__(
        self, client: Client, resource: str, status_of: Callable[[str], Mapping[str, Any] | None]
    ) -> None:
        """Follow the objects; ``status_of`` returns the BGP status of a node's calico-node, or
        None."""
        self._client = client
        self._resource = resource
        self._status_of = status_of
        self._reporters: dict[tuple[str, str], asyncio.Task[None]] = {}
        self.informer = Informer(client, resource)
        self.informer.on(self._begin, None, self._end)

    def stop(self) -> None:
        for task in self._reporters.values():
            task.cancel()

    def _begin(self, obj: Obj) -> None:
        self._reporters[key_of(obj)] = asyncio.create_task(
            self._report(obj["metadata"]["name"], obj["spec"])
        )

    def _end(self, obj: Obj) -> None:
        self._reporters.pop(key_of(obj)).cancel()

    async def _report(self, name: str, spec: Mapping[str, Any]) -> None:
        while text := self._status_of(spec.get("node", "")):
            status = {**text, "lastUpdated": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
            with suppress(ApiError):  # the object may be deleted meanwhile
                await self._client.patch(
                    self._resource, name, {"status": status}, subresource="status"
                )
            await asyncio.sleep(spec.get("updatePeriodSeconds") or float("inf"))
