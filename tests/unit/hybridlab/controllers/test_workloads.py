# SPDX-License-Identifier: Apache-2.0
"""Deployments, DaemonSets, Services and budgets over the real API with stand-in nodes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from hybridlab.api.contract import Obj
from hybridlab.controllers.deployments import share
from hybridlab.controllers.taint_eviction import tolerated_for
from hybridlab.profiles.model import Timing
from tests.unit.hybridlab.builders import a_deployment, a_pod, a_service
from tests.unit.hybridlab.controllers.stand_ins import CLUSTER, Cluster, is_ready


def in_cluster(scenario: Callable[[Cluster], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with Cluster(**options) as cluster:
            await scenario(cluster)

    asyncio.run(run())


def deployment(name: str = "web", *, image: str = "nginx:1", replicas: int = 3, **spec: Any) -> Obj:
    ports = [{"name": "http", "containerPort": 8080}]
    return a_deployment(name, image, container={"ports": ports}, replicas=replicas, **spec)


async def pods(cluster: Cluster) -> list[Obj]:
    return (await cluster.client.list("pods", "default"))[0]


async def rolled_out(cluster: Cluster, name: str = "web") -> Obj:
    """What ``kubectl rollout status`` waits for."""

    async def complete() -> Obj | None:
        found = await cluster.client.get("deployments.apps", name, "default")
        status, wanted = found["status"], found["spec"]["replicas"]
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        counts = [
            status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")
        ]
        return found if current and counts == [wanted] * 3 else None

    found: Obj = await cluster.until(complete)
    return found


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


def service(**spec: Any) -> Obj:
    return a_service(ports=[{"name": "web", "port": 80, "targetPort": "http"}], **spec)


def backends(cluster: Cluster, node: str = "win") -> list[tuple[str, int]]:
    table = cluster.dataplane.services.get(node)
    found = [port for port in table.ports if port.name.startswith("default/web")] if table else []
    return [(each.address, each.port) for each in found[0].backends] if found else []


def test_services_reach_only_ready_pods_on_every_node() -> None:
    async def scenario(cluster: Cluster) -> None:
        ready: set[str] = set()
        cluster.runtime.probe_answer = lambda spec: spec.address in ready
        body = deployment(replicas=2)
        probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 1}
        body["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = probe
        await cluster.client.create("services", service())
        await cluster.client.create("deployments.apps", body)

        async def waiting() -> list[str]:
            found, _ = await cluster.client.list("endpoints", "default", fields="metadata.name=web")
            subset = ((found[0].get("subsets") if found else None) or [{}])[0]
            return [each["ip"] for each in subset.get("notReadyAddresses") or ()]

        async def both_wait() -> bool:
            return len(await waiting()) == 2 and backends(cluster) == []

        async def one_is_there() -> bool:
            return all(
                backends(cluster, node) == [(chosen, 8080)]
                for node in ("cp", "linux-1", "linux-2", "win")
            )

        await cluster.until(both_wait)
        chosen, other = await waiting()
        ready.add(chosen)
        await cluster.until(one_is_there)
        assert await waiting() == [other]
        assert cluster.dataplane.zone
        assert "web.default.svc.cluster.local" in cluster.dataplane.zone.a

    in_cluster(scenario)


def test_a_node_port_with_local_policy_knows_only_its_own_pods() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create(
            "services", service(type="NodePort", externalTrafficPolicy="Local")
        )
        await cluster.client.create(
            "pods",
            a_pod(nodeName="linux-1", container={"ports": [{"name": "http", "containerPort": 81}]}),
        )
        found = await cluster.running("web")

        def outside(node: str) -> list[str]:
            table = cluster.dataplane.services.get(node)
            return (
                [each.address for port in table.ports if port.node_port for each in port.backends]
                if table
                else []
            )

        async def local() -> bool:
            return outside("linux-1") == [found["status"]["podIP"]] and outside("linux-2") == []

        await cluster.until(local)

    in_cluster(scenario)


def test_a_headless_service_names_its_pods() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("services", service(clusterIP="None"))
        made = a_pod(
            hostname="a",
            subdomain="web",
            container={"ports": [{"name": "http", "containerPort": 81}]},
        )
        await cluster.client.create("pods", made)
        found = await cluster.running("web")

        async def named() -> bool:
            return bool(
                cluster.dataplane.zone
                and "a.web.default.svc.cluster.local" in cluster.dataplane.zone.a
            )

        await cluster.until(named)
        zone, address = cluster.dataplane.zone, found["status"]["podIP"]
        assert zone
        assert zone.a["web.default.svc.cluster.local"] == (address,)
        assert zone.srv["_web._tcp.web.default.svc.cluster.local"] == (
            (81, "a.web.default.svc.cluster.local"),
        )
        assert zone.ptr[address] == "a.web.default.svc.cluster.local"

    in_cluster(scenario)


def test_many_pods_becoming_ready_cause_few_programmings() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("services", service())
        await cluster.client.create("deployments.apps", deployment(replicas=60))
        await rolled_out(cluster)

        async def complete() -> bool:
            return len(backends(cluster)) == 60

        await cluster.until(complete)
        assert cluster.dataplane.count("set_services") < 4 * 30

    in_cluster(scenario)


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
