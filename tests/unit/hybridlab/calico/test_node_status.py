# SPDX-License-Identifier: Apache-2.0
"""calico-node fills the CalicoNodeStatus of its own node, at once and each period, and no other."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.hybridlab.calico.cluster_harness import harness

STATUSES = "caliconodestatuses.projectcalico.org"


def asks(node: str) -> dict[str, Any]:
    return {
        "metadata": {"name": node},
        "spec": {"node": node, "classes": ["BGP"], "updatePeriodSeconds": 1},
    }


def test_the_status_of_a_node_is_filled_again_and_again_where_its_plane_tells_it() -> None:
    async def run() -> None:
        async with harness() as made:
            made.calico._statuses._status_of = lambda node: (
                {"agent": {}} if node == "linux-1" else None
            )
            for node in ("linux-1", "windows-2022"):
                await made.client.create(STATUSES, asks(node))

            async def filled(node: str) -> str:
                found = await made.client.get(STATUSES, node)
                return str((found.get("status") or {}).get("lastUpdated") or "")

            seen: set[str] = set()
            async with asyncio.timeout(10):
                while len(seen) < 2:
                    seen |= {told for told in [await filled("linux-1")] if told}
                    await asyncio.sleep(0.05)
            assert await filled("windows-2022") == ""
            await made.client.delete(STATUSES, "linux-1")
            await made.until(lambda: len(made.calico._statuses._reporters) == 1)

    asyncio.run(run())
