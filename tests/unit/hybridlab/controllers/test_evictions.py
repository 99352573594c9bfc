# SPDX-License-Identifier: Apache-2.0
"""Budgets, taints and nodes without room: which pods may go, must go, or fit nowhere."""

from __future__ import annotations

import pytest

from hybridlab.api.contract import Obj
from hybridlab.controllers.taint_eviction import tolerated_for
from tests.unit.hybridlab.builders import a_pod
from tests.unit.hybridlab.controllers.stand_ins import Cluster, in_cluster
from tests.unit.hybridlab.controllers.workloads import deployment, rolled_out


def test_a_budget_counts_the_healthy_and_what_may_go() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("deployments.apps", deployment(replicas=3))
        await rolled_out(cluster)
        selector = {"matchLabels": {"app": "web"}}
        body = {
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"minAvailable": 2, "selector": selector},
        }
        await cluster.client.create("poddisruptionbudgets.policy", body)

        async def counted() -> bool:
            found = await cluster.client.get("poddisruptionbudgets.policy", "web", "default")
            wanted = {
                "currentHealthy": 3,
                "desiredHealthy": 2,
                "disruptionsAllowed": 1,
                "expectedPods": 3,
            }
            return wanted.items() <= (found.get("status") or {}).items()

        await cluster.until(counted)

    in_cluster(scenario)


def test_a_budget_counts_a_pod_that_is_ready_since_nobody_knows_when() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod("lone", nodeName="elsewhere"))
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await cluster.client.patch(
            "pods", "lone", {"status": ready}, "default", subresource="status"
        )
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "lone"}}}
        budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": spec}
        await cluster.client.create("poddisruptionbudgets.policy", budget)

        async def counted() -> bool:
            found = await cluster.client.get("poddisruptionbudgets.policy", "b", "default")
            return bool((found.get("status") or {}).get("currentHealthy") == 1)

        await cluster.until(counted)

    in_cluster(scenario)


def test_a_pod_that_fits_nowhere_says_so_and_goes_when_a_node_changes() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod(nodeSelector={"disk": "ssd"}))
        message = await cluster.event("FailedScheduling")
        assert message.startswith(
            "0/4 nodes are available: 1 node(s) had untolerated taint {node-role"
        )
        found = await cluster.pod_when("web", lambda pod: pod["status"].get("conditions"))
        assert found["status"]["conditions"][0]["reason"] == "Unschedulable"
        await cluster.client.patch("nodes", "linux-2", {"metadata": {"labels": {"disk": "ssd"}}})
        found = await cluster.running("web")
        assert found["spec"]["nodeName"] == "linux-2"

    in_cluster(scenario)


def test_a_no_execute_taint_drives_out_the_pods_that_do_not_tolerate_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        stays = [{"key": "broken", "operator": "Exists"}]
        later = [{**stays[0], "effect": "NoExecute", "tolerationSeconds": 3600}]
        await cluster.client.create("pods", a_pod("leaves", nodeName="linux-2"))
        await cluster.client.create("pods", a_pod("elsewhere", nodeName="linux-1"))
        await cluster.client.create("pods", a_pod("stays", nodeName="linux-2", tolerations=stays))
        await cluster.client.create("pods", a_pod("later", nodeName="linux-2", tolerations=later))
        for name in ("leaves", "elsewhere", "stays", "later"):
            await cluster.running(name)
        taint = {"key": "broken", "value": "disk", "effect": "NoExecute"}
        await cluster.client.patch("nodes", "linux-2", {"spec": {"taints": [taint]}})

        async def left() -> bool:
            found, _ = await cluster.client.list("pods")
            return {each["metadata"]["name"] for each in found} == {"elsewhere", "stays", "later"}

        await cluster.until(left)
        assert (
            await cluster.event("TaintManagerEviction") == "Marking for deletion Pod default/leaves"
        )
        await cluster.client.create("pods", a_pod("new", nodeName="linux-2", restartPolicy="Never"))

        async def gone() -> bool:
            found, _ = await cluster.client.list("pods")
            return "new" not in {each["metadata"]["name"] for each in found}

        await cluster.until(gone)
        assert {each["metadata"]["name"] for each in (await cluster.client.list("pods"))[0]} >= {
            "stays",
            "later",
        }

    in_cluster(scenario)


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], 0.0),
        ([{"key": "broken", "operator": "Exists"}], None),
        ([{"operator": "Exists"}], None),
        ([{"key": "broken", "value": "disk"}], None),
        ([{"key": "broken", "value": "fan"}], 0.0),
        ([{"key": "broken", "operator": "Exists", "effect": "NoSchedule"}], 0.0),
        ([{"key": "broken", "operator": "Exists", "tolerationSeconds": 30}], 30.0),
        (
            [
                {"operator": "Exists", "tolerationSeconds": 9},
                {"key": "broken", "operator": "Exists"},
            ],
            9.0,
        ),
        ([{"key": "broken", "operator": "Exists", "tolerationSeconds": -5}], 0.0),
    ],
)
def test_how_long_a_pod_may_stay_under_a_taint(
    tolerations: list[Obj], expected: float | None
) -> None:
    assert (
        tolerated_for(tolerations, {"key": "broken", "value": "disk", "effect": "NoExecute"})
        == expected
    )
