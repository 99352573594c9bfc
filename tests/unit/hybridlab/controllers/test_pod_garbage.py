# SPDX-License-Identifier: Apache-2.0
"""Pods whose node is gone are removed, and a namespace with one ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hybridlab.api.contract import ApiError, Client
from hybridlab.api.core import Core, Settings
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.pod_garbage import PodGarbage
from hybridlab.controllers.work import Work
from tests.unit.hybridlab.builders import a_pod

NODE = {"metadata": {"name": "n1"}, "status": {"nodeInfo": {}}}


@asynccontextmanager
async def collecting(quarantine: float) -> AsyncIterator[Client]:
    client = Core(Settings()).client("test")
    await client.create("nodes", NODE)
    caches = Caches(client)
    garbage = PodGarbage(client, caches, check=0.005, quarantine=quarantine)
    await caches.start()
    garbage.start()
    yield client
    await garbage.stop()
    await caches.stop()


async def running(client: Client, name: str, node: str, namespace: str = "default") -> None:
    body = a_pod(name, nodeName=node)
    body["metadata"]["namespace"] = namespace
    await client.create("pods", body, namespace)
    await client.patch(
        "pods", name, {"status": {"phase": "Running"}}, namespace, subresource="status"
    )


async def names(client: Client, resource: str = "pods") -> list[str]:
    return [item["metadata"]["name"] for item in (await client.list(resource))[0]]


async def until(client: Client, resource: str, expected: list[str]) -> None:
    """Return when these are the objects that there are."""
    while True:
        if await names(client, resource) == expected:
            return
        await asyncio.sleep(0.005)


def test_a_pod_goes_when_its_node_was_deleted_or_never_existed() -> None:
    async def scenario() -> None:
        async with collecting(quarantine=0.02) as client, asyncio.timeout(5):
            await running(client, "stays", "n1")
            await running(client, "lost", "ghost")
            await until(client, "pods", ["stays"])
            await client.delete("nodes", "n1")
            await until(client, "pods", [])

    asyncio.run(scenario())


def test_a_pod_stays_as_long_as_its_node_may_come_back() -> None:
    async def scenario() -> None:
        async with collecting(quarantine=3600) as client:
            await running(client, "lost", "ghost")
            await asyncio.sleep(0.05)
            assert await names(client) == ["lost"]

    asyncio.run(scenario())


def test_a_namespace_with_a_lost_pod_ends() -> None:
    async def scenario() -> None:
        async with collecting(quarantine=0.0) as client, asyncio.timeout(5):
            await client.create("namespaces", {"metadata": {"name": "gone"}})
            before = await names(client, "namespaces")
            await running(client, "lost", "ghost", "gone")
            await client.delete("namespaces", "gone")
            before.remove("gone")
            await until(client, "namespaces", before)

    asyncio.run(scenario())


@pytest.mark.parametrize(("reason", "said"), [("NamespaceTerminating", 0), ("Other", 1)])
def test_only_the_end_of_a_namespace_is_no_news(
    caplog: pytest.LogCaptureFixture, reason: str, said: int
) -> None:
    async def scenario() -> None:
        tried = asyncio.Event()

        async def look(key: str) -> None:
            tried.set()
            raise ApiError(403, "Forbidden", "no", {"causes": [{"reason": reason}]})

        work = Work("test", look)
        work.start()
        work.note("key")
        await tried.wait()
        await work.stop()

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    assert len(caplog.records) == said
