# SPDX-License-Identifier: Apache-2.0
"""An informer's cache equals the cluster, also after its watch broke."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hybridlab.api.contract import ApiError, Event, Obj
from hybridlab.api.core import Core, Settings
from hybridlab.api.informer import Informer
from tests.unit.hybridlab.builders import a_pod


def config(name: str, **data: str) -> Obj:
    return {"metadata": {"name": name, "labels": {"app": name}}, "data": data}


def follow(informer: Informer) -> list[tuple[str, str]]:
    log: list[tuple[str, str]] = []
    informer.on(
        lambda obj: log.append(("added", obj["metadata"]["name"])),
        lambda old, new: log.append(("updated", new["metadata"]["name"])),
        lambda obj: log.append(("deleted", obj["metadata"]["name"])),
    )
    return log


def test_handlers_see_every_change_in_order() -> None:
    async def main() -> None:
        client = Core(Settings()).client("test")
        await client.create("configmaps", config("a"), "kube-public")
        informer = Informer(client, "configmaps", "kube-public", labels="app")
        log = follow(informer)
        async with informer, asyncio.timeout(5):
            await client.create("configmaps", config("b"), "kube-public")
            await client.create("configmaps", config("elsewhere"), "default")
            await client.patch("configmaps", "a", {"data": {"x": "1"}}, "kube-public")
            await client.delete("configmaps", "b", "kube-public")
            await informer.wait_for(
                lambda it: len(it) == 1 and "data" in (it.get("a", "kube-public") or {})
            )
            await asyncio.sleep(0)
        assert log == [("added", "a"), ("added", "b"), ("updated", "a"), ("deleted", "b")]

    asyncio.run(main())


def test_a_late_handler_is_told_what_is_there() -> None:
    async def main() -> None:
        client = Core(Settings()).client("test")
        async with Informer(client, "namespaces") as informer:
            log = follow(informer)
            assert [name for _, name in log] == [
                "default",
                "kube-node-lease",
                "kube-public",
                "kube-system",
            ]

    asyncio.run(main())


class Forgetful:
    """A client whose first watch breaks with 410 after it missed some changes."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.watches = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def watch(
        self, resource: str, namespace: str | None = None, **options: str
    ) -> AsyncIterator[Event]:
        self.watches += 1
        if self.watches == 1:
            await self._client.delete(resource, "a", "default")
            await self._client.create(resource, config("b"), "default")
            raise ApiError(410, "Expired", "too old resource version")
        async for event in self._client.watch(resource, namespace, **options):
            yield event


def test_after_a_410_the_difference_is_handled() -> None:
    async def main() -> None:
        client = Forgetful(Core(Settings()).client("test"))
        await client.create("configmaps", config("a"), "default")
        await client.create("configmaps", config("same"), "default")
        informer = Informer(client, "configmaps", "default", labels="app")
        log = follow(informer)
        async with informer, asyncio.timeout(5):
            await informer.wait_for(lambda it: it.get("b", "default") is not None)
        assert log == [("added", "a"), ("added", "same"), ("deleted", "a"), ("added", "b")]

    asyncio.run(main())


def test_a_watcher_that_falls_behind_is_told() -> None:
    async def main() -> None:
        core = Core(Settings(history=3))
        client = core.client("test")
        _, since = await client.list("configmaps")
        watch = client.watch("configmaps", since=since)
        for number in range(9):
            await client.create("configmaps", config(f"m{number}"), "default")
        with pytest.raises(ApiError) as caught:
            await anext(watch)
        assert caught.value.code == 410

    asyncio.run(main())


def test_a_failing_handler_is_not_silent() -> None:
    async def main() -> None:
        client = Core(Settings()).client("test")
        informer = Informer(client, "namespaces")
        informer.on(added=lambda obj: 1 / 0)  # type: ignore[arg-type]
        await informer.start()
        with pytest.raises(ZeroDivisionError):
            await informer.wait_synced()

    asyncio.run(main())


def test_what_a_caller_does_to_its_object_afterwards_changes_nothing() -> None:
    async def main() -> None:
        client = Core(Settings()).client("test")
        mine = config("a", x="1")
        await client.create("configmaps", mine, "default")
        mine["data"]["x"] = "2"
        assert (await client.get("configmaps", "a", "default"))["data"] == {"x": "1"}

    asyncio.run(main())


def test_an_old_object_is_never_changed_by_a_new_write() -> None:
    async def main() -> None:
        client = Core(Settings()).client("test")
        before = await client.create("pods", a_pod("p"), "default")
        kept = repr(before)
        await client.patch("pods", "p", {"metadata": {"labels": {"a": "b"}}}, "default")
        await client.create(
            "bindings", {"metadata": {"name": "p"}, "target": {"name": "n"}}, "default"
        )
        await client.patch(
            "pods", "p", {"status": {"phase": "Running"}}, "default", subresource="status"
        )
        await client.delete("pods", "p", "default")
        assert repr(before) == kept

    asyncio.run(main())
