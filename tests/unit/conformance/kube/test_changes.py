# SPDX-License-Identifier: Apache-2.0
"""Changes are signed, described in a dry run, and never affect objects of other owners."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, UsageProblem
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.guard import GuardRefused
from conformance.kube.ownership import Ownership
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef

RUN = Ownership("r1", "gw0")
HERE = RUN.namespace


def config(name: str = "c") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}}


def test_what_is_created_carries_the_runs_labels(kube: Kube, api: Any) -> None:
    api.routes[f"POST /api/v1/namespaces/{HERE}/configmaps"] = lambda request: (201, request.body)
    made = Changes(kube, RUN).create(config(), "a test", namespace=HERE)
    assert made is not None
    assert made["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "calico-windows-conformance",
        "calico-conformance/run": "r1",
        "calico-conformance/worker": "gw0",
    }


def test_the_namespace_of_the_runs_own_pod_is_changed_by_nobody(kube: Kube, api: Any) -> None:
    kube.access = replace(kube.access, namespace="sonobuoy")
    pod = ObjectRef(api_version="v1", kind="Pod", name="sonobuoy", namespace="sonobuoy")
    with pytest.raises(GuardRefused, match="namespace sonobuoy holds"):
        Changes(kube, RUN).delete(pod, "a test", foreign=True)
    assert [request for request in api.requests if request.method == "DELETE"] == []


def test_pods_of_a_deployment_carry_them_too() -> None:
    made = RUN.sign(
        {
            "kind": "Deployment",
            "metadata": {},
            "spec": {"template": {"metadata": {"labels": {"app": "x"}}}},
        }
    )
    assert made["spec"]["template"]["metadata"]["labels"]["calico-conformance/run"] == "r1"
    assert made["spec"]["template"]["metadata"]["labels"]["app"] == "x"


CALICO_POLICY = {
    "apiVersion": "projectcalico.org/v3",
    "kind": "NetworkPolicy",
    "metadata": {"name": "p"},
    "spec": {},
}
CALICO_PATH = f"/apis/projectcalico.org/v3/namespaces/{HERE}/networkpolicies"


def test_a_calico_policy_is_created_by_post_since_its_server_applies_nothing_new(
    kube: Kube, api: Any
) -> None:
    api.routes[f"POST {CALICO_PATH}"] = lambda request: (201, request.body)
    Changes(kube, RUN).apply(CALICO_POLICY, "a test", namespace=HERE)
    assert [request.method for request in api.requests if request.method != "GET"] == ["POST"]


def test_a_calico_policy_that_this_run_made_before_is_replaced_as_it_was_read(
    kube: Kube, api: Any, fakes: Any
) -> None:
    mine = RUN.sign(CALICO_POLICY)
    mine["metadata"]["resourceVersion"] = "41"
    api.routes[f"POST {CALICO_PATH}"] = fakes.status(409, "AlreadyExists", "exists")
    api.routes[f"GET {CALICO_PATH}/p"] = (200, mine)
    api.routes[f"PUT {CALICO_PATH}/p"] = lambda request: (200, request.body)
    made = Changes(kube, RUN).apply(CALICO_POLICY, "a test", namespace=HERE)
    assert made is not None
    assert made["metadata"]["resourceVersion"] == "41"
    assert api.requests[-1].method == "PUT"


def test_a_calico_policy_of_somebody_else_is_left_and_named(
    kube: Kube, api: Any, fakes: Any
) -> None:
    api.routes[f"POST {CALICO_PATH}"] = fakes.status(409, "AlreadyExists", "exists")
    api.routes[f"GET {CALICO_PATH}/p"] = (200, CALICO_POLICY)
    with pytest.raises(
        EnvironmentBroken, match=rf"NetworkPolicy {HERE}/p .*exists and does not belong to this run"
    ):
        Changes(kube, RUN).apply(CALICO_POLICY, "a test", namespace=HERE)
    assert "PUT" not in [request.method for request in api.requests]


WEB = ObjectRef(api_version="v1", kind="Pod", name="web", namespace="shop")
EVICTION = "/api/v1/namespaces/shop/pods/web/eviction"


def test_whether_a_budget_forbids_an_eviction_is_asked_without_evicting(
    kube: Kube, api: Any, fakes: Any
) -> None:
    code, status = fakes.status(429, "TooManyRequests", "Cannot evict pod.")
    status["details"] = {
        "causes": [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 2."}]
    }
    api.routes[f"POST {EVICTION}"] = code, status
    assert (
        Changes(kube, RUN).eviction_refusal(WEB)
        == "Cannot evict pod. The disruption budget web needs 2."
    )
    api.routes[f"POST {EVICTION}"] = 201, {}
    assert Changes(kube, RUN).eviction_refusal(WEB) == ""
    asked = [request for request in api.requests if request.path == EVICTION]
    assert [request.query for request in asked] == [{"dryRun": "All"}] * 2
    assert Changes(kube, RUN, dry_run=True).eviction_refusal(WEB) == ""
    assert len([request for request in api.requests if request.path == EVICTION]) == 2


def test_a_server_in_trouble_is_asked_again_whether_a_budget_forbids_an_eviction_and_is_no_budget(
    kube: Kube, api: Any, fakes: Any
) -> None:
    kube.timings = replace(kube.timings, api_retry=5.0)
    answers = [fakes.status(500, "InternalError", "etcd is away"), (201, {})]
    api.routes[f"POST {EVICTION}"] = lambda request: answers.pop(0)
    assert Changes(kube, RUN).eviction_refusal(WEB) == ""
    assert not answers
    kube.timings = replace(kube.timings, api_retry=0.0)
    several = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    api.routes[f"POST {EVICTION}"] = fakes.status(500, "InternalError", several)
    assert several in Changes(kube, RUN).eviction_refusal(WEB)
    api.routes[f"POST {EVICTION}"] = fakes.status(500, "InternalError", "etcd is away")
    with pytest.raises(ApiRefused, match="etcd is away"):
        Changes(kube, RUN).eviction_refusal(WEB)


def test_a_dry_run_says_what_it_would_do_and_sends_nothing(kube: Kube, api: Any) -> None:
    told: list[str] = []
    changes = Changes(kube, RUN, dry_run=True, tell=told.append)
    assert changes.create(config(), "a test", namespace=HERE) is None
    changes.delete_and_wait(
        ObjectRef(api_version="v1", kind="Namespace", name=HERE), "over", within=1
    )
    assert told[0] == f"dry run: create ConfigMap {HERE}/c (v1): a test"
    assert '"k": "v"' in told[1]
    assert all(request.method == "GET" for request in api.requests)
    assert changes.made == []


def test_a_dry_run_does_not_print_a_secret(kube: Kube) -> None:
    told: list[str] = []
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"password": "cGxhbnRlZA=="},
    }
    Changes(kube, RUN, dry_run=True, tell=told.append).apply(secret, "pulls", namespace=HERE)
    assert "cGxhbnRlZA" not in "".join(told)


def test_deleting_what_is_not_there_is_no_error(kube: Kube) -> None:
    Changes(kube, RUN).delete(
        ObjectRef(api_version="v1", kind="Pod", name="p", namespace=HERE), "a test"
    )


def test_a_namespace_of_somebody_else_is_refused_and_left_alone(kube: Kube, api: Any) -> None:
    api.routes[f"GET /api/v1/namespaces/{HERE}"] = (
        200,
        {"metadata": {"name": HERE, "labels": {"team": "x"}}},
    )
    with pytest.raises(
        UsageProblem, match=f"namespace {HERE} exists and does not belong to this run"
    ):
        Changes(kube, RUN).namespace(HERE, why="a test")
    assert all(request.method == "GET" for request in api.requests)


def test_a_namespace_of_this_run_is_used_again(kube: Kube, api: Any) -> None:
    api.routes[f"GET /api/v1/namespaces/{HERE}"] = (200, RUN.sign({"metadata": {"name": HERE}}))
    Changes(kube, RUN).namespace(HERE, why="a test")
    assert all(request.method == "GET" for request in api.requests)


def test_a_namespace_that_is_going_away_is_not_used(kube: Kube, api: Any) -> None:
    going = RUN.sign({"metadata": {"name": HERE}}) | {"status": {"phase": "Terminating"}}
    api.routes[f"GET /api/v1/namespaces/{HERE}"] = (200, going)
    with pytest.raises(EnvironmentBroken, match="being deleted, but not by this run"):
        Changes(kube, RUN).namespace(HERE, why="a test")


def test_a_list_patches_as_json_patch_and_a_dict_as_merge_patch(kube: Kube, api: Any) -> None:
    api.routes[f"PATCH /api/v1/namespaces/{HERE}/configmaps/c"] = (200, {})
    target = ObjectRef(api_version="v1", kind="ConfigMap", name="c", namespace=HERE)
    changes = Changes(kube, RUN)
    changes.patch(target, {"data": {"k": "w"}}, "a test")
    assert api.requests[-1].headers["Content-Type"] == "application/merge-patch+json"
    changes.patch(target, [{"op": "remove", "path": "/data/k"}], "a test")
    assert api.requests[-1].headers["Content-Type"] == "application/json-patch+json"


CONFIGS = f"/api/v1/namespaces/{HERE}/configmaps"


@pytest.mark.parametrize("code", [500, 503])
def test_a_create_that_a_server_in_trouble_refused_is_made_again(
    kube: Kube, api: Any, fakes: Any, code: int
) -> None:
    kube.timings = replace(kube.timings, api_retry=5.0)
    given = [
        fakes.status(code, "Reason", "not now"),
        (201, {**config(), "metadata": {"name": "c", "uid": "1"}}),
    ]
    api.routes[f"POST {CONFIGS}"] = lambda _: given.pop(0)
    made = Changes(kube, RUN).create(config(), "a test", namespace=HERE)
    assert made is not None
    assert made["metadata"]["uid"] == "1"


def twice(fakes: Any) -> Any:
    """A server in trouble that has nevertheless done what it was asked."""
    given = [
        fakes.status(500, "InternalError", "timed out"),
        fakes.status(409, "AlreadyExists", "exists"),
    ]
    return lambda _: given.pop(0)


def test_a_create_that_was_done_although_it_was_refused_is_taken_as_done(
    kube: Kube, api: Any, fakes: Any
) -> None:
    kube.timings = replace(kube.timings, api_retry=5.0)
    api.routes[f"POST {CONFIGS}"] = twice(fakes)
    api.routes[f"GET {CONFIGS}/c"] = (200, RUN.sign(config()))
    made = Changes(kube, RUN).create(config(), "a test", namespace=HERE)
    assert made is not None
    assert made["data"] == {"k": "v"}


@pytest.mark.parametrize(
    "there",
    [config(), Ownership("r2", "gw0").sign(config()), Ownership("r1", "gw1").sign(config()),
     {**RUN.sign(config()), "metadata": {**RUN.sign(config())["metadata"], "deletionTimestamp": "now"}}],
    ids=["somebody's", "another run's", "another worker's", "on its way out"],
)  # fmt: skip
def test_an_object_that_another_made_is_never_taken_for_the_created_one(
    kube: Kube, api: Any, fakes: Any, there: dict[str, Any]
) -> None:
    kube.timings = replace(kube.timings, api_retry=5.0)
    api.routes[f"POST {CONFIGS}"] = twice(fakes)
    api.routes[f"GET {CONFIGS}/c"] = (200, there)
    with pytest.raises(ApiRefused, match="409 AlreadyExists"):
        Changes(kube, RUN).create(config(), "a test", namespace=HERE)


def test_a_create_of_what_is_there_already_is_refused_at_once(
    kube: Kube, api: Any, fakes: Any
) -> None:
    api.routes[f"POST {CONFIGS}"] = fakes.status(409, "AlreadyExists", "exists")
    api.routes[f"GET {CONFIGS}/c"] = (200, RUN.sign(config()))
    with pytest.raises(ApiRefused, match="409 AlreadyExists"):
        Changes(kube, RUN).create(config(), "a test", namespace=HERE)


@pytest.mark.parametrize(
    ("patch", "times"),
    [({"data": {"k": "w"}}, 2), ({"metadata": {"resourceVersion": "7"}, "data": {"k": "w"}}, 1),
     ([{"op": "test", "path": "/data/k", "value": "v"}], 1)],
    ids=["merge", "merge of one version", "JSON patch"],
)  # fmt: skip
def test_only_patches_that_may_be_made_twice_are_repeated(
    kube: Kube, api: Any, fakes: Any, patch: Any, times: int
) -> None:
    kube.timings = replace(kube.timings, api_retry=5.0)
    given = [fakes.status(500, "InternalError", "not now"), (200, config())]
    api.routes[f"PATCH {CONFIGS}/c"] = lambda _: given.pop(0)
    target = ObjectRef(api_version="v1", kind="ConfigMap", name="c", namespace=HERE)
    with contextlib.suppress(ApiRefused):
        Changes(kube, RUN).patch(target, patch, "a test")
    assert len([request for request in api.requests if request.method == "PATCH"]) == times
