# SPDX-License-Identifier: Apache-2.0
"""A watch delivers every change once, in order, from where the client says."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

CM = "/api/v1/namespaces/default/configmaps"


@asynccontextmanager
async def watching(
    api: Any, query: str, path: str = CM, accept: str = "application/json"
) -> AsyncIterator[Any]:
    """Yield a function that returns the next event."""
    headers = {"Authorization": "Bearer admin-token", "Accept": accept}
    url = f"{api.server.url}{path}?watch=true&{query}"
    async with api.session.get(url, headers=headers, ssl=api.tls) as reply:
        assert reply.status == 200

        async def following() -> Any:
            async with asyncio.timeout(5):
                line = await reply.content.readline()
            return json.loads(line) if line else None

        yield following


def seen(event: Any) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


def test_a_watch_replays_what_happened_since_a_version_and_goes_on(run: Any) -> None:
    async def scenario(api: Any) -> None:
        first = await api.create(CM, {"metadata": {"name": "a"}})
        await api.create(CM, {"metadata": {"name": "b"}})
        async with watching(
            api, f"resourceVersion={first['metadata']['resourceVersion']}"
        ) as following:
            assert seen(await following()) == ("ADDED", "b")
            await api.patch(f"{CM}/a", {"data": {"x": "1"}})
            changed = await following()
            assert seen(changed) == ("MODIFIED", "a")
            assert (changed["object"]["kind"], changed["object"]["data"]) == (
                "ConfigMap",
                {"x": "1"},
            )
            await api.call("DELETE", f"{CM}/a")
            deleted = await following()
            assert seen(deleted) == ("DELETED", "a")
            versions = [
                int(event["object"]["metadata"]["resourceVersion"]) for event in (changed, deleted)
            ]
            assert versions == sorted(set(versions))

    run(scenario)


def test_a_watch_without_a_version_begins_with_what_is_there(run: Any) -> None:
    async def scenario(api: Any) -> None:
        async with watching(api, "", "/api/v1/namespaces") as following:
            names = [seen(await following()) for _ in range(4)]
            assert names == [
                ("ADDED", n) for n in ("default", "kube-node-lease", "kube-public", "kube-system")
            ]

    run(scenario)


def test_a_selector_turns_changes_into_coming_and_going(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(CM, {"metadata": {"name": "a"}})
        since = (await api.get(CM))["metadata"]["resourceVersion"]
        async with watching(api, f"resourceVersion={since}&labelSelector=on%3Dyes") as following:
            await api.patch(f"{CM}/a", {"metadata": {"labels": {"on": "yes"}}})
            assert seen(await following()) == ("ADDED", "a")
            await api.patch(f"{CM}/a", {"data": {"x": "1"}})
            assert seen(await following()) == ("MODIFIED", "a")
            await api.patch(f"{CM}/a", {"metadata": {"labels": {"on": "no"}}})
            gone = await following()
            assert seen(gone) == ("DELETED", "a")
            assert gone["object"]["metadata"]["labels"] == {"on": "yes"}
            await api.call("DELETE", f"{CM}/a")
            await api.create(CM, {"metadata": {"name": "b", "labels": {"on": "yes"}}})
            assert seen(await following()) == ("ADDED", "b")

    run(scenario)


def test_too_old_a_version_is_told_with_an_error_event(run: Any) -> None:
    async def scenario(api: Any) -> None:
        for number in range(12):
            await api.create(CM, {"metadata": {"name": f"m{number}"}})
        async with watching(api, "resourceVersion=3") as following:
            event = await following()
            assert (event["type"], event["object"]["code"], event["object"]["reason"]) == (
                "ERROR",
                410,
                "Expired",
            )
            assert await following() is None

    run(scenario, history=4)


def test_a_timeout_ends_the_watch(run: Any) -> None:
    async def scenario(api: Any) -> None:
        since = (await api.get(CM))["metadata"]["resourceVersion"]
        async with watching(api, f"resourceVersion={since}&timeoutSeconds=0") as following:
            assert await following() is None

    run(scenario)


def test_initial_events_end_with_a_bookmark(run: Any) -> None:
    async def scenario(api: Any) -> None:
        query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        async with watching(api, query) as following:
            assert (await following())["type"] == "ADDED"
            mark = await following()
            assert mark["type"] == "BOOKMARK"
            assert mark["object"]["metadata"]["annotations"] == {
                "k8s.io/initial-events-end": "true"
            }

    run(scenario)


def test_a_watch_for_tables_gets_rows(run: Any) -> None:
    async def scenario(api: Any) -> None:
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
        async with watching(api, "", "/api/v1/namespaces", accept) as following:
            first, second = await following(), await following()
            assert first["object"]["rows"][0]["cells"][:2] == ["default", "Active"]
            assert first["object"]["columnDefinitions"]
            assert not second["object"]["columnDefinitions"]

    run(scenario)


def test_many_watchers_see_the_same(run: Any) -> None:
    async def scenario(api: Any) -> None:
        since = (await api.get(CM))["metadata"]["resourceVersion"]

        async def follow() -> list[tuple[str, str]]:
            async with watching(api, f"resourceVersion={since}") as following:
                return [seen(await following()) for _ in range(20)]

        watchers = [asyncio.create_task(follow()) for _ in range(10)]
        for number in range(20):
            await api.create(CM, {"metadata": {"name": f"m{number}"}})
        results = await asyncio.gather(*watchers)
        assert results == [[("ADDED", f"m{number}") for number in range(20)]] * 10

    run(scenario)


def test_a_client_that_goes_away_leaves_nothing_behind(run: Any) -> None:
    async def scenario(api: Any) -> None:
        bucket = api.server.core.store.bucket("configmaps")
        async with watching(api, ""):
            await asyncio.sleep(0.05)
            assert len(bucket._waiting) == 1
        async with asyncio.timeout(5):
            while bucket._waiting:  # noqa: ASYNC110 (it happens on the other side of HTTPS)
                await asyncio.sleep(0.01)

    run(scenario)


def test_a_client_that_goes_away_between_events_is_no_error_of_the_server(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(api: Any) -> None:
        client = api.server.client("writer")
        bucket = api.server.core.store.bucket("configmaps")
        for _ in range(5):
            async with watching(api, "") as following:
                await client.create("configmaps", {"metadata": {"generateName": "m"}}, "default")
                await following()
            while (
                bucket._waiting
            ):  # events come in every round of the loop in which the connection is taken down
                await client.create("configmaps", {"metadata": {"generateName": "m"}}, "default")
                await asyncio.sleep(0)

    with caplog.at_level(logging.ERROR):
        run(scenario)
    assert [record.getMessage() for record in caplog.records] == []
