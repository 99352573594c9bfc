# SPDX-License-Identifier: Apache-2.0
"""CalicoNodeStatus: calico-node fills those that ask for its own node, at once and then each period."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.api.informer import Informer, key_of


class NodeStatuses:
    """The reporters of all nodes of one cluster."""

    def __init__(
        self, client: Client, resource: str, told: Callable[[str], Mapping[str, Any] | None]
    ) -> None:
        """``told``: what calico-node of a node says of BGP; None: it says nothing."""
        self._client = client
        self._resource = resource
        self._told = told
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
        while told := self._told(spec.get("node", "")):
            status = {**told, "lastUpdated": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
            with suppress(ApiError):  # it is on its way out
                await self._client.patch(
                    self._resource, name, {"status": status}, subresource="status"
                )
            await asyncio.sleep(spec.get("updatePeriodSeconds") or float("inf"))
