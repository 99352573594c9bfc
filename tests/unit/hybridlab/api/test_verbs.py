# SPDX-License-Identifier: Apache-2.0
"""Create, read, replace, patch, delete and list over HTTPS answer as a Kubernetes API server does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.hybridlab.builders import a_deployment, a_pod

CM = "/api/v1/namespaces/default/configmaps"


def config(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def test_a_created_object_carries_what_the_server_adds(run: Any) -> None:
    async def scenario(api: Any) -> None:
        made = await api.create(CM, {"metadata": {"generateName": "gen-", "uid": "mine"}})
        meta = made["metadata"]
        assert (made["apiVersion"], made["kind"], meta["namespace"]) == (
            "v1",
            "ConfigMap",
            "default",
        )
        assert meta["name"].startswith("gen-")
        assert len(meta["name"]) == 9
        assert meta["uid"] != "mine"
        assert meta["creationTimestamp"].endswith("Z")
        assert int(meta["resourceVersion"]) > 0
        assert (await api.get(f"{CM}/{meta['name']}")) == made

    run(scenario)


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "reason", "message"),
    [
        ("GET", f"{CM}/none", None, 404, "NotFound", 'configmaps "none" not found'),
        ("GET", "/apis/apps/v1/namespaces/default/deployments/none", None, 404, "NotFound",
         'deployments.apps "none" not found'),
        ("GET", "/api/v1/nothings", None, 404, "NotFound", "the server could not find the requested resource"),
        ("POST", CM, config("kube-root-ca.crt"), 409, "AlreadyExists", 'configmaps "kube-root-ca.crt" already exists'),
        ("POST", "/api/v1/namespaces/none/configmaps", config("a"), 404, "NotFound", 'namespaces "none" not found'),
        ("POST", CM, {"metadata": {"name": "a", "namespace": "other"}}, 400, "BadRequest",
         "the namespace of the provided object does not match the namespace sent on the request"),
        ("POST", CM, {"metadata": {"name": "a", "resourceVersion": "1"}}, 500, None,
         "resourceVersion should not be set on objects to be created"),
        ("POST", CM, {"kind": "Secret", "metadata": {"name": "a"}}, 400, "BadRequest", None),
        ("DELETE", "/api/v1/namespaces/default", None, 403, "Forbidden",
         'namespaces "default" is forbidden: this namespace may not be deleted'),
        ("PUT", f"{CM}/none", config("none"), 404, "NotFound", 'configmaps "none" not found'),
    ],
)  # fmt: skip
def test_a_refusal_names_its_reason(
    run: Any, *, method: str, path: str, body: Any, code: int, reason: str, message: str | None
) -> None:
    async def scenario(api: Any) -> None:
        answer = await api.call(method, path, body)
        assert (answer.code, answer.body["code"], answer.body.get("reason")) == (code, code, reason)
        assert (answer.body["kind"], answer.body["status"]) == ("Status", "Failure")
        if message is not None:
            assert answer.body["message"] == message

    run(scenario)


def test_a_stale_write_is_a_conflict_and_a_fresh_one_is_not(run: Any) -> None:
    async def scenario(api: Any) -> None:
        made = await api.create(CM, config("a", x="1"))
        changed = await api.call("PUT", f"{CM}/a", {**made, "data": {"x": "2"}})
        assert changed.code == 200
        stale = await api.call("PUT", f"{CM}/a", {**made, "data": {"x": "3"}})
        assert (stale.code, stale.body["reason"]) == (409, "Conflict")
        assert (
            "the object has been modified; please apply your changes to the latest version"
            in stale.body["message"]
        )
        assert (await api.get(f"{CM}/a"))["data"] == {"x": "2"}

    run(scenario)


def test_a_write_that_changes_nothing_keeps_the_resource_version(run: Any) -> None:
    async def scenario(api: Any) -> None:
        made = await api.create(CM, config("a", x="1"))
        again = await api.call("PUT", f"{CM}/a", made)
        patched = await api.patch(f"{CM}/a", {"data": {"x": "1"}})
        assert again.body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert patched.body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]

    run(scenario)


def test_the_generation_counts_changes_of_the_spec_only_and_status_is_isolated(run: Any) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    body = a_deployment("d")

    async def scenario(api: Any) -> None:
        made = await api.create(path, {**body, "status": {"replicas": 7}})
        assert (made["metadata"]["generation"], made["status"].get("replicas")) == (1, None)
        labelled = await api.patch(
            f"{path}/d", {"metadata": {"labels": {"x": "y"}}, "status": {"replicas": 7}}
        )
        assert (
            labelled.body["metadata"]["generation"],
            labelled.body["status"].get("replicas"),
        ) == (1, None)
        status = await api.patch(
            f"{path}/d/status", {"spec": {"replicas": 9}, "status": {"replicas": 7}}
        )
        assert (status.body["spec"]["replicas"], status.body["status"]["replicas"]) == (1, 7)
        assert status.body["metadata"]["generation"] == 1
        scaled = await api.patch(f"{path}/d", {"spec": {"replicas": 3}})
        assert (scaled.body["metadata"]["generation"], scaled.body["status"]["replicas"]) == (2, 7)

    run(scenario)


def test_uid_preconditions_guard_deletes(run: Any) -> None:
    async def scenario(api: Any) -> None:
        made = await api.create(CM, config("a"))
        wrong = await api.call("DELETE", f"{CM}/a", {"preconditions": {"uid": "other"}})
        assert (wrong.code, wrong.body["reason"]) == (409, "Conflict")
        right = await api.call(
            "DELETE", f"{CM}/a", {"preconditions": {"uid": made["metadata"]["uid"]}}
        )
        assert (right.code, right.body["status"], right.body["details"]["name"]) == (
            200,
            "Success",
            "a",
        )

    run(scenario)


def test_a_dry_run_says_what_would_be_and_changes_nothing(run: Any) -> None:
    async def scenario(api: Any) -> None:
        made = await api.call("POST", f"{CM}?dryRun=All", config("a"))
        assert made.code == 201
        assert made.body["metadata"]["uid"]
        assert (await api.call("GET", f"{CM}/a")).code == 404
        await api.create(CM, config("b", x="1"))
        await api.call("PUT", f"{CM}/b?dryRun=All", config("b", x="2"))
        await api.call("DELETE", f"{CM}/b?dryRun=All")
        assert (await api.get(f"{CM}/b"))["data"] == {"x": "1"}

    run(scenario)


def test_selectors_select(run: Any) -> None:
    async def scenario(api: Any) -> None:
        for name, labels in (("a", {"app": "x", "t": "1"}), ("b", {"app": "y"}), ("c", {})):
            await api.create(CM, {"metadata": {"name": name, "labels": labels}})

        async def names(query: str) -> list[str]:
            listed = await api.get(f"{CM}?{query}")
            return [
                item["metadata"]["name"]
                for item in listed["items"]
                if not item["metadata"]["name"].startswith("kube")
            ]

        assert await names("labelSelector=app%3Dx") == ["a"]
        assert await names("labelSelector=app%3D%3Dx") == ["a"]
        assert await names("labelSelector=app!%3Dx") == ["b", "c"]
        assert await names("labelSelector=app+in+(x,y)") == ["a", "b"]
        assert await names("labelSelector=app+notin+(x)") == ["b", "c"]
        assert await names("labelSelector=app") == ["a", "b"]
        assert await names("labelSelector=!app") == ["c"]
        assert await names("labelSelector=app,t%3D1") == ["a"]
        assert await names("fieldSelector=metadata.name%3Db") == ["b"]
        assert await names("fieldSelector=metadata.name!%3Db") == ["a", "c"]
        for query in ("labelSelector=a+b", "labelSelector=a+in+x", "fieldSelector=spec.foo%3Db"):
            assert (await api.call("GET", f"{CM}?{query}")).code == 400

    run(scenario)


def test_a_field_that_is_not_set_is_false_to_a_selector(run: Any) -> None:
    async def scenario(api: Any) -> None:
        pods = "/api/v1/namespaces/default/pods"
        await api.create(pods, a_pod("on", hostNetwork=True))
        await api.create(pods, a_pod("off"))
        for value, expected in (("false", ["off"]), ("true", ["on"])):
            found = await api.get(f"{pods}?fieldSelector=spec.hostNetwork%3D{value}")
            assert [item["metadata"]["name"] for item in found["items"]] == expected

    run(scenario)


def test_namespaces_are_not_deleted_as_a_collection(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create("/api/v1/namespaces", {"metadata": {"name": "a"}})
        refused = await api.call("DELETE", "/api/v1/namespaces")
        assert (refused.code, refused.body["reason"]) == (405, "MethodNotAllowed")
        assert (await api.get("/api/v1/namespaces/a"))["status"]["phase"] == "Active"

    run(scenario)


def test_pages_of_one_list_show_one_moment(run: Any) -> None:
    async def scenario(api: Any) -> None:
        for number in range(5):
            await api.create(CM, config(f"m{number}"))
        first = await api.get(f"{CM}?limit=2")
        await api.call("DELETE", f"{CM}/m4")
        second = await api.get(f"{CM}?limit=2&continue={first['metadata']['continue']}")
        third = await api.get(f"{CM}?limit=2&continue={second['metadata']['continue']}")
        names = [
            item["metadata"]["name"] for page in (first, second, third) for item in page["items"]
        ]
        assert names == ["kube-root-ca.crt", "m0", "m1", "m2", "m3", "m4"]
        assert first["metadata"]["remainingItemCount"] == 4
        assert "continue" not in third["metadata"]
        assert {page["metadata"]["resourceVersion"] for page in (first, second, third)} == {
            first["metadata"]["resourceVersion"]
        }
        garbage = await api.call("GET", f"{CM}?limit=2&continue=WyJ4IiwgMl0=")
        assert (garbage.code, garbage.body["reason"]) == (410, "Expired")

    run(scenario)


def test_delete_collection_deletes_what_the_selector_selects(run: Any) -> None:
    async def scenario(api: Any) -> None:
        for name, app in (("a", "x"), ("b", "y")):
            await api.create(CM, {"metadata": {"name": name, "labels": {"app": app}}})
        deleted = await api.call("DELETE", f"{CM}?labelSelector=app%3Dx")
        assert [item["metadata"]["name"] for item in deleted.body["items"]] == ["a"]
        assert (await api.call("GET", f"{CM}/b")).code == 200

    run(scenario)


def test_the_items_of_a_list_leave_kind_and_version_to_the_list(run: Any) -> None:
    async def scenario(api: Any) -> None:
        listed = await api.get("/api/v1/namespaces")
        assert listed["kind"] == "NamespaceList"
        assert all("kind" not in item and "apiVersion" not in item for item in listed["items"])

    run(scenario)


def test_a_hundred_writers_of_one_object_never_lose_an_update(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(CM, config("a"))
        await asyncio.gather(*(api.patch(f"{CM}/a", {"data": {f"k{n}": "v"}}) for n in range(100)))
        assert len((await api.get(f"{CM}/a"))["data"]) == 100

    run(scenario)
