# SPDX-License-Identifier: Apache-2.0
"""Binding, eviction, scale, and what is said of subresources that the lab does not have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.hybridlab.builders import a_deployment, a_pod

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


async def budget(api: Any, **status: int) -> None:
    body = {
        "metadata": {"name": "pdb"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    made = await api.create(BUDGETS, body)
    known = {"observedGeneration": made["metadata"]["generation"], "expectedPods": 1, **status}
    await api.patch(f"{BUDGETS}/pdb/status", {"status": known})


def test_a_pod_is_bound_once(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(PODS, a_pod("p"))
        body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
        assert (await api.call("POST", f"{PODS}/p/binding", body)).code == 201
        bound = await api.get(f"{PODS}/p")
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
        again = await api.call("POST", f"{PODS}/p/binding", body)
        assert (again.code, 'already assigned to node "n1"' in again.body["message"]) == (409, True)

    run(scenario)


def test_an_eviction_deletes_unless_a_budget_forbids_it(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        await api.patch(f"{PODS}/p", {"metadata": {"labels": {"app": "x"}}})
        await budget(api, currentHealthy=1, desiredHealthy=1, disruptionsAllowed=0)
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
        refused = await api.call("POST", f"{PODS}/p/eviction", body)
        assert (refused.code, refused.body["reason"]) == (429, "TooManyRequests")
        assert (
            refused.body["message"]
            == "Cannot evict pod as it would violate the pod's disruption budget."
        )
        assert refused.body["details"]["causes"] == [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget pdb needs 1 healthy pods and has 1 currently",
            }
        ]
        await api.patch(
            f"{BUDGETS}/pdb/status", {"status": {"currentHealthy": 2, "disruptionsAllowed": 1}}
        )
        assert (await api.call("POST", f"{PODS}/p/eviction", body)).code == 201
        assert (await api.get(f"{PODS}/p"))["metadata"]["deletionTimestamp"]
        left = await api.get(f"{BUDGETS}/pdb")
        assert (left["status"]["disruptionsAllowed"], list(left["status"]["disruptedPods"])) == (
            0,
            ["p"],
        )

    run(scenario)


def test_a_budget_that_was_not_looked_at_yet_says_when_to_come_back(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        await api.patch(f"{PODS}/p", {"metadata": {"labels": {"app": "x"}}})
        body = {
            "metadata": {"name": "pdb"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
        }
        await api.create(BUDGETS, body)
        refused = await api.call("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})
        assert (refused.code, refused.headers["Retry-After"]) == (429, "10")

    run(scenario)


def test_an_eviction_says_what_is_wrong_with_it(run: Any) -> None:
    async def scenario(api: Any) -> None:
        assert (
            await api.call("POST", f"{PODS}/gone/eviction", {"metadata": {"name": "gone"}})
        ).code == 404
        await api.running_pod("p")
        wrong = await api.call("POST", f"{PODS}/p/eviction", {"metadata": {"name": "q"}})
        assert (wrong.code, wrong.body["message"]) == (
            400,
            "name in URL does not match name in Eviction object",
        )
        other = {"metadata": {"name": "p"}, "deleteOptions": {"preconditions": {"uid": "another"}}}
        assert (await api.call("POST", f"{PODS}/p/eviction", other)).code == 409
        await api.patch(f"{PODS}/p", {"metadata": {"labels": {"app": "x"}}})
        await budget(api, currentHealthy=1, desiredHealthy=1, disruptionsAllowed=1)
        second = {"metadata": {"name": "second"}, "spec": {"minAvailable": 0, "selector": {}}}
        await api.create(BUDGETS, second)
        two = await api.call("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})
        assert two.code == 500
        assert "more than one PodDisruptionBudget" in two.body["message"]
        assert "deletionTimestamp" not in (await api.get(f"{PODS}/p"))["metadata"]

    run(scenario)


def test_an_evicted_pod_says_that_it_was_evicted(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        dry = await api.call("POST", f"{PODS}/p/eviction?dryRun=All", {"metadata": {"name": "p"}})
        assert (dry.code, "deletionTimestamp" in (await api.get(f"{PODS}/p"))["metadata"]) == (
            201,
            False,
        )
        assert (
            await api.call("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})
        ).code == 201
        listed = (await api.get(f"{PODS}/p"))["status"]["conditions"]
        conditions = {
            condition["type"]: condition["reason"]
            for condition in listed
            if condition.get("reason")
        }
        assert conditions["DisruptionTarget"] == "EvictionByEvictionAPI"

    run(scenario)


@pytest.mark.parametrize(("policy", "code"), [("AlwaysAllow", 201), ("IfHealthyBudget", 429)])
def test_a_pod_that_is_not_ready_goes_as_its_budget_says(run: Any, policy: str, code: int) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        await api.patch(f"{PODS}/p", {"metadata": {"labels": {"app": "x"}}})
        not_ready = [{"type": "Ready", "status": "False"}]
        await api.patch(f"{PODS}/p/status", {"status": {"conditions": not_ready}})
        await budget(api, currentHealthy=0, desiredHealthy=1, disruptionsAllowed=0)
        await api.patch(f"{BUDGETS}/pdb", {"spec": {"unhealthyPodEvictionPolicy": policy}})
        generation = (await api.get(f"{BUDGETS}/pdb"))["metadata"]["generation"]
        await api.patch(f"{BUDGETS}/pdb/status", {"status": {"observedGeneration": generation}})
        assert (
            await api.call("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})
        ).code == code

    run(scenario)


def test_scale_reads_and_writes_replicas(run: Any) -> None:
    body = a_deployment("d", labels={"a": "b"})

    async def scenario(api: Any) -> None:
        await api.create(DEPLOYMENTS, body)
        scale = await api.get(f"{DEPLOYMENTS}/d/scale")
        assert (scale["kind"], scale["spec"]["replicas"], scale["status"]["selector"]) == (
            "Scale",
            1,
            "a=b",
        )
        await api.call("PUT", f"{DEPLOYMENTS}/d/scale", {**scale, "spec": {"replicas": 4}})
        await api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 5}})
        assert (await api.get(f"{DEPLOYMENTS}/d"))["spec"]["replicas"] == 5
        stale = await api.call("PUT", f"{DEPLOYMENTS}/d/scale", {**scale, "spec": {"replicas": 4}})
        assert stale.code == 409
        negative = await api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": -1}})
        assert negative.code == 422

    run(scenario)


@pytest.mark.parametrize(
    "path",
    [
        f"{PODS}/p/portforward",
        f"{PODS}/p/attach",
        f"{PODS}/p/proxy/x",
        "/api/v1/namespaces/default/services/kubernetes/proxy/",
        f"{PODS}/p/ephemeralcontainers",
    ],
)
def test_what_the_lab_does_not_have_says_so(run: Any, path: str) -> None:
    async def scenario(api: Any) -> None:
        answer = await api.call("GET", path)
        assert (answer.code, answer.body["message"].startswith("not emulated: ")) == (501, True)

    run(scenario)
