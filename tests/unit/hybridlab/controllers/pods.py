# SPDX-License-Identifier: Apache-2.0
"""Readers of pods for tests of the kubelet."""

from __future__ import annotations

from typing import Any

from hybridlab.api.contract import Obj
from tests.unit.hybridlab.controllers.stand_ins import Cluster


def waiting(found: Obj, reason: str) -> Any:
    statuses = found.get("status", {}).get("containerStatuses") or ()
    return any(each["state"].get("waiting", {}).get("reason") == reason for each in statuses)


def first(found: Obj) -> Obj:
    return dict(found["status"]["containerStatuses"][0])


async def gone(cluster: Cluster) -> None:
    async def none() -> bool:
        return not (await cluster.client.list("pods", "default"))[0]

    await cluster.client.delete("pods", "web", "default")
    await cluster.until(none)
