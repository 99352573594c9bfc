# SPDX-License-Identifier: Apache-2.0
"""Deployments, DaemonSets, Services and budgets over the real API with stand-in nodes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.controllers.deployments import share
from hybridlab.profiles.model import Timing
from tests.unit.hybridlab.builders import a_pod, is_ready
from tests.unit.hybridlab.controllers.stand_ins import CLUSTER, Cluster, in_cluster
from tests.unit.hybridlab.controllers.workloads import deployment, pods, rolled_out


def test_percentages_round_up_for_surge_and_down_for_absence() -> None:
    assert share("25%", 3, up=True) == 1
    assert share("25%", 3, up=False) == 0
    assert share(2, 3, up=True) == 2


def test_a_deployment_makes_its_pods_and_says_when_it_is_available() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("deployments.apps", deployment())
        found = await rolled_out(cluster)
        reasons = {entry["type"]: entry["reason"] for entry in found["status"]["conditions"]}
        assert reasons == {
            "Available": "MinimumReplicasAvailable",
            "Progressing": "NewReplicaSetAvailable",
        }
        assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
        assert len(await pods(cluster)) == 3
        assert len({each["spec"]["nodeName"] for each in await pods(cluster)}) == 2

    in_cluster(scenario)


def test_a_new_template_rolls_over_without_going_below_the_available_minimum() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("deployments.apps", deployment())
        await rolled_out(cluster)
        lowest = [3]

        def watch(_: Any, __: Any) -> None:
            ready = [
                each
                for each in cluster.control_plane.caches.of("pods")
                if is_ready(each) and "deletionTimestamp" not in each["metadata"]
            ]
            lowest[0] = min(lowest[0], len(ready))

        cluster.control_plane.caches.of("pods").subscribe(watch)
        change = {
            "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}
        }
        await cluster.client.patch("deployments.apps", "web", change, "default", kind="strategic")

        async def only_new() -> bool:
            found = await pods(cluster)
            return len(found) == 3 and all(
                each["spec"]["containers"][0]["image"] == "nginx:2" for each in found
            )

        await cluster.until(only_new)
        found = await rolled_out(cluster)
        assert lowest[0] >= 3
        assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
        sets, _ = await cluster.client.list("replicasets.apps", "default")
        assert sorted(each["spec"]["replicas"] for each in sets) == [0, 3]

    in_cluster(scenario)


def test_going_back_to_an_old_template_uses_its_set_again_with_a_new_revision() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("deployments.apps", deployment())
        await rolled_out(cluster)
        for image in ("nginx:2", "nginx:1"):
            change = {
                "spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}
            }
            await cluster.client.patch(
                "deployments.apps", "web", change, "default", kind="strategic"
            )
            await rolled_out(cluster)
        sets, _ = await cluster.client.list("replicasets.apps", "default")
        assert len(sets) == 2
        found = await rolled_out(cluster)
        assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"

    in_cluster(scenario)


def test_recreate_ends_all_old_pods_before_the_first_new_one() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("deployments.apps", deployment(strategy={"type": "Recreate"}))
        await rolled_out(cluster)
        mixed = []

        def watch(_: Any, __: Any) -> None:
            found = [
                each["spec"]["containers"][0]["image"]
                for each in cluster.control_plane.caches.of("pods")
                if "deletionTimestamp" not in each["metadata"]
            ]
            mixed.append(len(set(found)) > 1)

        cluster.control_plane.caches.of("pods").subscribe(watch)
        change = {
            "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}
        }
        await cluster.client.patch("deployments.apps", "web", change, "default", kind="strategic")
        await rolled_out(cluster)
        assert {each["spec"]["containers"][0]["image"] for each in await pods(cluster)} == {
            "nginx:2"
        }
        assert not any(mixed)

    in_cluster(scenario)


def test_scaling_down_and_deleting_leave_nothing_behind() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("deployments.apps", deployment())
        await rolled_out(cluster)
        await cluster.client.patch("deployments.apps", "web", {"spec": {"replicas": 1}}, "default")

        async def one_left() -> bool:
            return len(await pods(cluster)) == 1

        await cluster.until(one_left)
        await cluster.client.delete("deployments.apps", "web", "default")

        async def none_left() -> bool:
            return (
                not await pods(cluster) and not (await cluster.client.list("replicasets.apps"))[0]
            )

        await cluster.until(none_left)
        assert not cluster.runtime.running

    in_cluster(scenario)


def test_a_deleted_pod_is_replaced_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("deployments.apps", deployment(replicas=2))
        await rolled_out(cluster)
        victim = (await pods(cluster))[0]["metadata"]["name"]
        await cluster.client.delete("pods", victim, "default")

        async def replaced() -> bool:
            found = await pods(cluster)
            return (
                victim not in {each["metadata"]["name"] for each in found}
                and sum(map(is_ready, found)) == 2
            )

        await cluster.until(replaced)
        assert len(cluster.runtime.started) == 3

    in_cluster(scenario)


def daemon_set(image: str = "agent:1", **spec: Any) -> Obj:
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": {**a_pod(image=image)["spec"], **spec}}
    return {
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def test_a_daemon_runs_on_every_node_it_tolerates_even_a_cordoned_one() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.patch("nodes", "linux-1", {"spec": {"unschedulable": True}})
        linux = {"kubernetes.io/os": "linux"}
        body = daemon_set(
            nodeSelector=linux, tolerations=[{"operator": "Exists", "effect": "NoSchedule"}]
        )
        await cluster.client.create("daemonsets.apps", body)

        async def everywhere() -> bool:
            found = await pods(cluster)
            return {each["spec"].get("nodeName") for each in found if is_ready(each)} == {
                "cp",
                "linux-1",
                "linux-2",
            }

        await cluster.until(everywhere)

        async def counted() -> bool:
            status = (await cluster.client.get("daemonsets.apps", "agent", "default"))["status"]
            return bool(status["desiredNumberScheduled"] == status["numberReady"] == 3)

        await cluster.until(counted)

    in_cluster(scenario)


def test_a_daemons_new_template_replaces_pod_after_pod() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("daemonsets.apps", daemon_set())

        async def count(image: str) -> int:
            return sum(
                each["spec"]["containers"][0]["image"] == image and is_ready(each)
                for each in await pods(cluster)
            )

        async def old() -> bool:
            return await count("agent:1") == 2

        async def new() -> bool:
            return await count("agent:2") == 2

        await cluster.until(old)
        change = {
            "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "agent:2"}]}}}
        }
        await cluster.client.patch("daemonsets.apps", "agent", change, "default", kind="strategic")
        await cluster.until(new)

    in_cluster(scenario, profile=replace(CLUSTER, timing=Timing(daemon_replaced_ms=60_000)))


def test_a_daemons_pod_that_somebody_deleted_is_replaced_after_a_while() -> None:
    async def scenario(cluster: Cluster) -> None:
        async def there() -> list[Obj]:
            found = [each for each in await pods(cluster) if is_ready(each)]
            return found if len(found) == 2 else []

        await cluster.client.create("daemonsets.apps", daemon_set())
        first = (await cluster.until(there))[0]["metadata"]
        await cluster.client.delete("pods", first["name"], "default", grace_period_seconds=0)
        begun = time.monotonic()
        await cluster.until(there)
        assert time.monotonic() - begun >= 0.3

    in_cluster(scenario, profile=replace(CLUSTER, timing=Timing(daemon_replaced_ms=300)))


def test_system_workloads_stand_on_the_right_systems() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.runtime.ends_with = {"install-cni": [0] * 9, "uninstall-calico": [0] * 9}
        rendered = {
            "metadata": {"name": "cni-config-windows"},
            "data": {"config": "{}"},
        }  # Calico's part writes it
        await cluster.client.create("configmaps", rendered, "calico-system")

        async def all_ready() -> bool:
            found, _ = await cluster.client.list("pods")
            return len(found) >= 19 and all(map(is_ready, found))

        await cluster.until(all_ready)
        found, _ = await cluster.client.list("pods")
        windows = {
            each["metadata"]["name"].rpartition("-")[0]
            for each in found
            if each["spec"]["nodeName"] == "win"
        }
        assert windows == {"calico-node-windows", "kube-proxy-windows"}
        dns = await cluster.client.get("services", "kube-dns", "kube-system")
        assert dns["spec"]["clusterIP"] == "10.96.0.10"

    in_cluster(scenario, system_workloads=True)
