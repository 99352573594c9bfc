# SPDX-License-Identifier: Apache-2.0
"""Kinds that Kubernetes has and the lab has not are refused by name; those that clients list by habit are empty."""

from __future__ import annotations

from typing import Any

import pytest

DEV = "alice-token"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
EMPTY = [
    ("/api/v1/namespaces/default/replicationcontrollers", "ReplicationController", "replicationcontrollers"),
    ("/apis/apps/v1/namespaces/default/statefulsets", "StatefulSet", "statefulsets.apps"),
    ("/apis/batch/v1/namespaces/default/jobs", "Job", "jobs.batch"),
    ("/apis/batch/v1/namespaces/default/cronjobs", "CronJob", "cronjobs.batch"),
    ("/apis/networking.k8s.io/v1/namespaces/default/ingresses", "Ingress", "ingresses.networking.k8s.io"),
    ("/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", "HorizontalPodAutoscaler",
     "horizontalpodautoscalers.autoscaling"),
    ("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", "HorizontalPodAutoscaler",
     "horizontalpodautoscalers.autoscaling"),
]  # fmt: skip
MISSING = [
    ("/api/v1/persistentvolumes/x", "persistentvolumes"),
    ("/api/v1/namespaces/default/resourcequotas", "resourcequotas"),
    ("/apis/storage.k8s.io/v1/storageclasses", "storageclasses.storage.k8s.io"),
    ("/apis/networking.k8s.io/v1/servicecidrs", "servicecidrs.networking.k8s.io"),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", "priorityclasses.scheduling.k8s.io"),
]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.mark.parametrize(
    ("path", "kind", "name"), EMPTY, ids=[row[2] + row[0][6:16] for row in EMPTY]
)
def test_kinds_that_clients_list_by_habit_are_empty_and_refuse_writes_by_name(
    run: Any, path: str, kind: str, name: str
) -> None:
    async def scenario(api: Any) -> None:
        listed = await api.get(path)
        assert (listed["kind"], listed["items"]) == (f"{kind}List", [])
        everywhere = path.replace("/namespaces/default", "")
        assert (await api.get(everywhere))["items"] == []
        initial = (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        )
        assert (await api.get(f"{path}?watch=1&timeoutSeconds=1&{initial}"))["type"] == "BOOKMARK"
        shown = (await api.call("GET", path, headers={"Accept": TABLE})).body
        assert (shown["kind"], shown["rows"]) == ("Table", [])
        assert (await api.call("GET", f"{path}/x")).body["reason"] == "NotFound"
        assert (await api.call("DELETE", path)).body["items"] == []
        body = {"apiVersion": listed["apiVersion"], "kind": kind, "metadata": {"name": "x"}}
        applied = await api.patch(f"{path}/x?fieldManager=m", body, "apply-patch")
        protobuf = {"Content-Type": "application/vnd.kubernetes.protobuf"}
        for refused in (
            await api.call("POST", path, body),
            await api.call("POST", path, b"k8s\x00", headers=protobuf),
            applied,
        ):
            assert (refused.code, refused.body["message"]) == (501, f"not emulated: {name}")
        assert (await api.get(path))["items"] == []

    run(scenario)


@pytest.mark.parametrize(("path", "name"), MISSING)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_kind_that_the_lab_lacks_is_404_and_named(
    run: Any, method: str, path: str, name: str
) -> None:
    async def scenario(api: Any) -> None:
        answer = await api.call(method, path, {} if method == "POST" else None)
        found = answer.code, answer.body["reason"], answer.body["message"]
        assert found == (404, "NotFound", f"not emulated: {name}")

    run(scenario)


def test_what_kubernetes_does_not_have_either_is_not_called_so(run: Any) -> None:
    async def scenario(api: Any) -> None:
        for path in ("/api/v1/nopes", "/apis/batch/v1/nopes", "/apis/batch/v1beta1/cronjobs"):
            answer = await api.call("GET", path)
            assert (answer.code, "not emulated" in str(answer.body)) == (404, False)

    run(scenario)


def test_a_viewer_sees_the_empty_lists_and_nobody_else_does(run: Any) -> None:
    async def scenario(api: Any) -> None:
        subject = {"kind": "User", "name": "alice"}
        reference = {"kind": "ClusterRole", "name": "view"}
        body = {"metadata": {"name": "see"}, "roleRef": reference, "subjects": [subject]}
        for path, _, _ in EMPTY:
            assert (await api.call("GET", path, token=DEV)).code == 403
            assert (await api.call("POST", path, {}, token=DEV)).code == 403
        await api.create(f"{RBAC}/clusterrolebindings", body)
        for path, _, _ in EMPTY:
            assert (await api.get(path, token=DEV))["items"] == []

    run(scenario)
