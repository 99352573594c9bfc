# SPDX-License-Identifier: Apache-2.0
"""The three patch types change what they say and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from hybridlab.api.contract import ApiError
from hybridlab.api.patches import json_patch, merge_patch, strategic_merge
from hybridlab.api.schemas.shapes import shapes

POD = shapes().named("V1Pod")


def two_containers() -> dict[str, Any]:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    containers = [{"name": "one", "image": "i1", "env": env}, {"name": "two", "image": "i2"}]
    return {
        "metadata": {"finalizers": ["x"]},
        "spec": {"containers": containers, "tolerations": [{"key": "a"}]},
    }


def test_merge_patch_deletes_by_null_and_replaces_lists() -> None:
    assert merge_patch({"a": {"b": 1, "c": 2}, "l": [1]}, {"a": {"b": None}, "l": [2]}) == {
        "a": {"c": 2},
        "l": [2],
    }


def test_json_patch_fails_as_a_whole() -> None:
    target = {"a": 1}
    with pytest.raises(ApiError) as caught:
        json_patch(
            target,
            [{"op": "replace", "path": "/a", "value": 2}, {"op": "test", "path": "/a", "value": 9}],
        )
    assert (caught.value.code, target) == (422, {"a": 1})


def test_strategic_merge_patches_the_item_with_the_same_key() -> None:
    old = two_containers()
    new = strategic_merge(old, {"spec": {"containers": [{"name": "two", "image": "new"}]}}, POD)
    assert [item["image"] for item in new["spec"]["containers"]] == ["i1", "new"]
    assert old == two_containers()


def test_strategic_merge_reaches_nested_lists_and_adds_items() -> None:
    patch = {
        "spec": {
            "containers": [
                {"name": "one", "env": [{"name": "B", "value": "9"}, {"name": "C", "value": "3"}]}
            ]
        }
    }
    new = strategic_merge(two_containers(), patch, POD)
    assert {item["name"]: item["value"] for item in new["spec"]["containers"][0]["env"]} == {
        "A": "1",
        "B": "9",
        "C": "3",
    }


def test_strategic_merge_deletes_and_replaces_on_demand() -> None:
    gone = strategic_merge(
        two_containers(), {"spec": {"containers": [{"name": "one", "$patch": "delete"}]}}, POD
    )
    assert [item["name"] for item in gone["spec"]["containers"]] == ["two"]
    fresh = [{"$patch": "replace"}, {"name": "new", "image": "x"}]
    replaced = strategic_merge(two_containers(), {"spec": {"containers": fresh}}, POD)
    assert [item["name"] for item in replaced["spec"]["containers"]] == ["new"]


def test_lists_without_a_key_are_replaced_and_sets_are_joined() -> None:
    patch = {"metadata": {"finalizers": ["y"]}, "spec": {"tolerations": [{"key": "b"}]}}
    new = strategic_merge(two_containers(), patch, POD)
    assert new["spec"]["tolerations"] == [{"key": "b"}]
    assert new["metadata"]["finalizers"] == ["y", "x"]  # those of the patch first
    fewer = strategic_merge(new, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}, POD)
    assert fewer["metadata"]["finalizers"] == ["y"]


def test_an_item_of_a_patch_that_is_new_comes_before_those_of_the_server() -> None:
    patch = {
        "spec": {"containers": [{"name": "new", "image": "i"}, {"name": "two", "image": "i2"}]}
    }
    names = [
        item["name"] for item in strategic_merge(two_containers(), patch, POD)["spec"]["containers"]
    ]
    assert names == ["new", "one", "two"]


def test_replacing_a_field_that_is_not_there_adds_it() -> None:
    assert json_patch({"a": {}}, [{"op": "replace", "path": "/a/b", "value": 1}]) == {"a": {"b": 1}}
    with pytest.raises(ApiError):
        json_patch({}, [{"op": "replace", "path": "/a/b", "value": 1}])


def test_set_element_order_sorts_the_merged_list() -> None:
    order = [{"name": "two"}, {"name": "one"}]
    new = strategic_merge(
        two_containers(), {"spec": {"$setElementOrder/containers": order, "containers": []}}, POD
    )
    assert [item["name"] for item in new["spec"]["containers"]] == ["two", "one"]


def test_retain_keys_drops_the_other_members_of_a_union() -> None:
    old = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic_merge(old, patch, shapes().named("V1Deployment"))["spec"]["strategy"] == {
        "type": "Recreate"
    }


def test_a_custom_resource_takes_no_strategic_patch_and_an_unknown_type_is_named(run: Any) -> None:
    path = "/apis/projectcalico.org/v3/globalnetworksets"

    async def scenario(api: Any) -> None:
        await api.create(
            "/apis/operator.tigera.io/v1/installations", {"metadata": {"name": "default"}}
        )
        refused = await api.patch(
            "/apis/operator.tigera.io/v1/installations/default", {}, "strategic-merge-patch"
        )
        assert refused.code == 415
        await api.create(path, {"metadata": {"name": "s"}, "spec": {"nets": ["10.0.0.0/8"]}})
        odd = await api.call("PATCH", f"{path}/s", {}, headers={"Content-Type": "text/plain"})
        assert (odd.code, odd.body["message"]) == (415, "415: Unsupported Media Type")

    run(scenario)
