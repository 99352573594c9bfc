# SPDX-License-Identifier: Apache-2.0
"""Server-side apply: who owns which field decides what an apply may change and what it removes."""

from __future__ import annotations

from typing import Any

PATH = "/apis/apps/v1/namespaces/default/deployments/d"


def deployment(replicas: int | None = None, image: str = "i:1", **extra: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": image, "ports": [{"containerPort": 80}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    spec: dict[str, Any] = {"selector": {"matchLabels": {"a": "b"}}, "template": template, **extra}
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


async def apply(
    api: Any, body: Any, manager: str = "one", *, force: bool = False, path: str = PATH
) -> Any:
    query = f"?fieldManager={manager}&fieldValidation=Strict" + ("&force=true" if force else "")
    return await api.patch(path + query, body, "apply-patch")


def owners(obj: Any) -> dict[str, Any]:
    return {
        f"{e['manager']}/{e['operation']}": e["fieldsV1"] for e in obj["metadata"]["managedFields"]
    }


def test_an_apply_creates_then_changes_nothing_then_changes(run: Any) -> None:
    async def scenario(api: Any) -> None:
        made = await apply(api, deployment(2))
        again = await apply(api, deployment(2))
        changed = await apply(api, deployment(3))
        assert (made.code, again.code, changed.code) == (201, 200, 200)
        assert made.body["metadata"]["resourceVersion"] == again.body["metadata"]["resourceVersion"]
        assert changed.body["spec"]["replicas"] == 3
        ports = owners(changed.body)["one/Apply"]["f:spec"]["f:template"]["f:spec"]["f:containers"][
            'k:{"name":"c"}'
        ]
        assert 'k:{"containerPort":80,"protocol":"TCP"}' in ports["f:ports"]

    run(scenario)


def test_a_field_of_another_manager_conflicts_until_forced(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await apply(api, deployment(2))
        refused = await apply(api, deployment(5), "two")
        assert (refused.code, refused.body["reason"]) == (409, "Conflict")
        assert (
            refused.body["message"]
            == 'Apply failed with 1 conflict: conflict with "one": .spec.replicas'
        )
        assert refused.body["details"]["causes"] == [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "one"',
                "field": ".spec.replicas",
            }
        ]
        forced = await apply(api, deployment(5), "two", force=True)
        assert forced.body["spec"]["replicas"] == 5
        assert "f:replicas" not in owners(forced.body)["one/Apply"]["f:spec"]

    run(scenario)


def test_the_same_value_is_shared_without_conflict(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await apply(api, deployment(2))
        shared = await apply(api, deployment(2), "two")
        assert shared.code == 200
        assert all("f:replicas" in fields["f:spec"] for fields in owners(shared.body).values())

    run(scenario)


def test_a_field_no_longer_applied_goes_unless_someone_else_owns_it(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await apply(api, deployment(2, minReadySeconds=7))
        await apply(
            api, {**deployment(), "spec": {**deployment()["spec"], "minReadySeconds": 7}}, "two"
        )
        kept = await apply(api, deployment(2))
        assert kept.body["spec"]["minReadySeconds"] == 7
        await apply(api, deployment(), "two")
        gone = await api.get(PATH)
        assert "minReadySeconds" not in gone["spec"]

    run(scenario)


def test_an_item_of_a_keyed_list_comes_and_goes_without_touching_the_others(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await apply(api, deployment(1))
        more = deployment()
        more["spec"]["template"]["spec"]["containers"] = [{"name": "side", "image": "s:1"}]
        both = await apply(api, more, "two")
        assert [c["name"] for c in both.body["spec"]["template"]["spec"]["containers"]] == [
            "c",
            "side",
        ]
        more["spec"]["template"]["spec"]["containers"] = []
        one = await apply(api, more, "two")
        assert [c["name"] for c in one.body["spec"]["template"]["spec"]["containers"]] == ["c"]

    run(scenario)


def test_an_update_takes_a_field_over_and_a_later_apply_conflicts_with_it(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await apply(api, deployment(2))
        await api.patch(f"{PATH}?fieldManager=editor", {"spec": {"replicas": 4}})
        refused = await apply(api, deployment(2))
        assert refused.code == 409
        assert '"editor" using apps/v1' in refused.body["message"]

    run(scenario)


def test_an_apply_needs_a_manager_and_good_fields(run: Any) -> None:
    async def scenario(api: Any) -> None:
        nobody = await api.patch(PATH, deployment(), "apply-patch")
        assert nobody.code == 422
        wrong = await apply(api, {**deployment(), "spec": {**deployment()["spec"], "replica": 1}})
        assert (wrong.code, ".spec.replica: field not declared" in wrong.body["message"]) == (
            500,
            True,
        )

    run(scenario)


def test_custom_resources_can_be_applied_too(run: Any) -> None:
    path = "/apis/projectcalico.org/v3/globalnetworksets/s"
    body = {
        "apiVersion": "projectcalico.org/v3",
        "kind": "GlobalNetworkSet",
        "metadata": {"name": "s", "labels": {"a": "b"}},
        "spec": {"nets": ["10.0.0.0/8"]},
    }

    async def scenario(api: Any) -> None:
        made = await apply(api, body, path=path)
        assert made.code == 201
        changed = await apply(api, {**body, "spec": {"nets": ["10.1.0.0/16"]}}, path=path)
        assert changed.body["spec"]["nets"] == ["10.1.0.0/16"]
        conflict = await apply(api, body, "two", path=path)
        assert conflict.code == 409

    run(scenario)
