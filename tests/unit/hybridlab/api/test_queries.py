# SPDX-License-Identifier: Apache-2.0
"""Booleans of a query mean what they mean to a real server, whatever spelling a client has for them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

CM = "/api/v1/namespaces/default/configmaps"
TRUE = ["True", "TRUE", "true", "1", "t", "yes", "no", ""]
FALSE = ["False", "FALSE", "false", "0"]
SPELLINGS = (
    [(f"={word}", True) for word in TRUE] + [("", True)] + [(f"={word}", False) for word in FALSE]
)
"""What follows the name of a boolean, and what it means; nothing at all is true, too."""


def spelled(function: Any) -> Any:
    return pytest.mark.parametrize(
        ("spelling", "is_true"),
        SPELLINGS,
        ids=[word.removeprefix("=") or f"empty{word}" for word, _ in SPELLINGS],
    )(function)


async def first_line(api: Any, path: str, meanwhile: Any = None) -> Any:
    """Return the first line of an answer; ``meanwhile`` is awaited once the answer has begun."""
    headers = {"Authorization": "Bearer admin-token"}
    async with api.session.get(api.server.url + path, headers=headers, ssl=api.tls) as reply:
        assert reply.status == 200
        if meanwhile is not None:
            await meanwhile
        async with asyncio.timeout(5):
            return json.loads(await reply.content.readline())


@spelled
def test_watch(run: Any, spelling: str, is_true: bool) -> None:
    async def scenario(api: Any) -> None:
        found = await first_line(
            api, f"/api/v1/namespaces?fieldSelector=metadata.name=default&watch{spelling}"
        )
        assert found.get("type", found.get("kind")) == ("ADDED" if is_true else "NamespaceList")

    run(scenario)


@spelled
@pytest.mark.parametrize(
    ("name", "other"),
    [("allowWatchBookmarks", "sendInitialEvents"), ("sendInitialEvents", "allowWatchBookmarks")],
)
def test_the_bookmark_after_initial_events(
    run: Any, name: str, other: str, spelling: str, is_true: bool
) -> None:
    """Nothing is there at first, so that the first event is the bookmark or the Secret that comes then."""
    path = "/api/v1/namespaces/default/secrets"

    async def scenario(api: Any) -> None:
        query = f"watch=1&resourceVersion=1&resourceVersionMatch=NotOlderThan&{other}=true&{name}{spelling}"
        event = await first_line(
            api, f"{path}?{query}", api.create(path, {"metadata": {"name": "s"}})
        )
        assert event["type"] == ("BOOKMARK" if is_true else "ADDED")

    run(scenario)


@spelled
def test_force(run: Any, spelling: str, is_true: bool) -> None:
    async def scenario(api: Any) -> None:
        path = f"{CM}/forced?fieldManager="
        mine = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "forced"},
            "data": {"a": "1"},
        }
        assert (await api.patch(f"{path}one", mine, "apply-patch")).code == 201
        answer = await api.patch(
            f"{path}two&force{spelling}", {**mine, "data": {"a": "2"}}, "apply-patch"
        )
        assert answer.code == (200 if is_true else 409)

    run(scenario)


@spelled
def test_orphan_dependents(run: Any, spelling: str, is_true: bool) -> None:
    async def scenario(api: Any) -> None:
        owner = await api.create(CM, {"metadata": {"name": "owner"}})
        uid = owner["metadata"]["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        await api.create(CM, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
        await api.call("DELETE", f"{CM}/owner?orphanDependents{spelling}")
        assert (await api.call("GET", f"{CM}/owned")).code == (200 if is_true else 404)

    run(scenario)


@spelled
def test_timestamps_of_logs(run: Any, spelling: str, is_true: bool) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        await api.get(f"/api/v1/namespaces/default/pods/p/log?timestamps{spelling}")
        assert api.agent.asked["timestamps"] is is_true

    run(scenario)


def test_what_is_absent_is_false(run: Any) -> None:
    async def scenario(api: Any) -> None:
        assert (await api.get("/api/v1/namespaces?timeoutSeconds=1"))["kind"] == "NamespaceList"

    run(scenario)


@pytest.mark.parametrize("method", ["DELETE", "POST"])
@pytest.mark.parametrize("subresource", ["status", "scale"])
def test_a_write_to_a_subresource_that_has_no_such_verb_leaves_the_object_alone(
    run: Any, method: str, subresource: str
) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    containers = [{"name": "c", "image": "i"}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    body = {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }

    async def scenario(api: Any) -> None:
        before = await api.create(path, body)
        answer = await api.call(
            method, f"{path}/d/{subresource}", body if method == "POST" else None
        )
        assert (answer.code, answer.body["reason"]) == (405, "MethodNotAllowed")
        assert (await api.get(f"{path}/d"))["metadata"]["uid"] == before["metadata"]["uid"]
        assert (
            await api.call(method, f"{path}/e/{subresource}", body if method == "POST" else None)
        ).code == 405
        assert len((await api.get(path))["items"]) == 1

    run(scenario)


def test_events_are_selected_by_their_source(run: Any) -> None:
    path = "/api/v1/namespaces/default/events"

    async def scenario(api: Any) -> None:
        about = {"kind": "ConfigMap", "name": "x", "namespace": "default"}
        for name, more in (
            ("old", {"source": {"component": "kubelet"}}),
            ("new", {"reportingComponent": "kubelet"}),
            ("both", {"source": {"component": "other"}, "reportingComponent": "kubelet"}),
        ):
            await api.create(
                path,
                {"metadata": {"name": name}, "involvedObject": about, "type": "Normal", **more},
            )
        found = (await api.get(f"{path}?fieldSelector=source=kubelet"))["items"]
        assert [item["metadata"]["name"] for item in found] == ["new", "old"]

    run(scenario)
