# SPDX-License-Identifier: Apache-2.0
"""How containers and pods end: hooks, grace periods, probes at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hybridlab.api.contract import Obj
from tests.unit.hybridlab.builders import a_pod, is_ready
from tests.unit.hybridlab.controllers.pods import first, gone
from tests.unit.hybridlab.controllers.stand_ins import Cluster, in_cluster


def test_deleting_a_pod_gives_its_containers_their_grace_and_frees_the_address() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod(terminationGracePeriodSeconds=7))
        await cluster.running("web")
        await cluster.client.delete("pods", "web", "default")

        async def gone() -> bool:
            return not (await cluster.client.list("pods"))[0]

        await cluster.until(gone)
        assert cluster.runtime.stopped == [(cluster.runtime.started[0].id, 7.0)]
        assert not cluster.network.attached
        assert not cluster.runtime.running

    in_cluster(scenario)


def test_a_forced_delete_kills_at_once_and_still_cleans_up() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod())
        await cluster.running("web")
        await cluster.client.delete("pods", "web", "default", grace_period_seconds=0)

        async def clean() -> bool:
            return not cluster.network.attached and not cluster.runtime.running

        await cluster.until(clean)
        assert cluster.runtime.stopped[0][1] == 0.0

    in_cluster(scenario)


def test_container_hooks_tell_where_what_started_and_stopped() -> None:
    async def scenario(cluster: Cluster) -> None:
        told: list[tuple[str, str]] = []
        cluster.control_plane.on_container_started(
            lambda node, pod, name: told.append(("started", name))
        )
        cluster.control_plane.on_container_stopped(
            lambda node, pod, name: told.append(("stopped", name))
        )
        await cluster.client.create("pods", a_pod())
        await cluster.running("web")
        await cluster.client.delete("pods", "web", "default")

        async def stopped() -> bool:
            return told == [("started", "main"), ("stopped", "main")]

        await cluster.until(stopped)

    in_cluster(scenario)


def recorded(cluster: Cluster) -> list[Any]:
    """Probes (and hooks) and stops of the runtime, in their order from now on."""
    seen: list[Any] = []
    probe, stop = cluster.runtime.probe, cluster.runtime.stop

    async def probing(spec: Any) -> Any:
        seen.append(spec)
        return await probe(spec)

    async def stopping(container: str, *, grace: float) -> None:
        seen.append(grace)
        await stop(container, grace=grace)

    cluster.runtime.probe, cluster.runtime.stop = probing, stopping  # type: ignore[method-assign]
    return seen


def restarting(cluster: Cluster) -> Callable[[], Awaitable[bool]]:
    async def killing() -> bool:
        return bool(await cluster.events("Killing"))

    return killing


def test_a_pre_stop_hook_runs_before_the_container_is_asked_to_end_and_takes_of_its_grace() -> None:
    async def scenario(cluster: Cluster) -> None:
        hook = {"preStop": {"httpGet": {"port": 8080, "path": "/bye"}}}
        await cluster.client.create(
            "pods", a_pod(terminationGracePeriodSeconds=7, container={"lifecycle": hook})
        )
        await cluster.running("web")
        seen = recorded(cluster)
        await gone(cluster)
        asked, grace = seen
        assert (asked.kind, asked.port, asked.path, asked.timeout) == ("http", 8080, "/bye", 7.0)
        assert 6.0 < grace < 7.0
        assert await cluster.events("FailedPreStopHook") == []

    in_cluster(scenario)


def test_a_pre_stop_hook_that_fails_says_so_and_one_that_sleeps_leaves_two_seconds() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.runtime.probe_answer = lambda spec: False
        hook: Obj = {"preStop": {"exec": {"command": ["bye"]}}}
        await cluster.client.create("pods", a_pod(container={"lifecycle": hook}))
        await cluster.running("web")
        seen = recorded(cluster)
        await gone(cluster)
        assert seen[0].argv == ("bye",)
        assert await cluster.event("FailedPreStopHook") == "PreStopHook failed"
        hook = {"preStop": {"sleep": {"seconds": 1}}}
        await cluster.client.create(
            "pods", a_pod(terminationGracePeriodSeconds=1, container={"lifecycle": hook})
        )
        await cluster.running("web")
        seen.clear()
        began = asyncio.get_running_loop().time()
        await gone(cluster)
        assert asyncio.get_running_loop().time() - began >= 1
        assert seen == [2.0]

    in_cluster(scenario)


def test_a_pre_stop_hook_runs_before_a_restart_by_a_failed_liveness_probe() -> None:
    """Kubernetes, "Container Lifecycle Hooks", PreStop.

    "This hook is called immediately before a container is terminated due to an API request or
    management event such as a liveness/startup probe failure, preemption, resource contention and
    others."
    """

    async def scenario(cluster: Cluster) -> None:
        cluster.runtime.probe_answer = lambda spec: (
            spec.argv == ("bye",) or len(cluster.runtime.started) > 1
        )
        seen = recorded(cluster)
        probe = {"exec": {"command": ["lively"]}, "periodSeconds": 1, "failureThreshold": 1}
        hook = {"preStop": {"exec": {"command": ["bye"]}}}
        await cluster.client.create(
            "pods",
            a_pod(
                terminationGracePeriodSeconds=7,
                container={"livenessProbe": probe, "lifecycle": hook},
            ),
        )
        await cluster.pod_when(
            "web", lambda found: is_ready(found) and first(found)["restartCount"]
        )
        asked, hooked, grace = seen[:3]
        assert (asked.argv, hooked.argv, hooked.timeout) == (("lively",), ("bye",), 7.0)
        assert hooked.container == cluster.runtime.started[0].id
        assert 6.0 < grace < 7.0

    in_cluster(scenario)


@pytest.mark.parametrize("kind", ["livenessProbe", "startupProbe"])
def test_a_probe_that_names_a_grace_period_has_it_at_the_restart_that_it_causes(kind: str) -> None:
    """Kubernetes, "Configure Liveness, Readiness and Startup Probes", probe-level grace period."""

    async def scenario(cluster: Cluster) -> None:
        cluster.runtime.probe_answer = lambda spec: (
            spec.argv == ("bye",) or len(cluster.runtime.started) > 1
        )
        seen = recorded(cluster)
        probe = {
            "exec": {"command": ["lively"]},
            "periodSeconds": 1,
            "failureThreshold": 1,
            "terminationGracePeriodSeconds": 3,
        }
        hook = {"preStop": {"exec": {"command": ["bye"]}}}
        pod = a_pod(terminationGracePeriodSeconds=7, container={kind: probe, "lifecycle": hook})
        await cluster.client.create("pods", pod)
        await cluster.pod_when(
            "web", lambda found: is_ready(found) and first(found)["restartCount"]
        )
        (hooked,) = [entry for entry in seen if getattr(entry, "argv", None) == ("bye",)]
        (grace,) = [entry for entry in seen if isinstance(entry, float)][:1]
        assert hooked.timeout == 3.0
        assert 2.0 <= grace < 3.0

    in_cluster(scenario)


def test_a_pod_that_ends_runs_the_pre_stop_hook_of_a_restart_under_way_anew() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.runtime.probe_answer = lambda spec: False
        probe = {"exec": {"command": ["lively"]}, "periodSeconds": 1, "failureThreshold": 1}
        hook = {"preStop": {"sleep": {"seconds": 2}}}
        await cluster.client.create(
            "pods",
            a_pod(
                terminationGracePeriodSeconds=9,
                container={"livenessProbe": probe, "lifecycle": hook},
            ),
        )
        await cluster.running("web")
        seen = recorded(cluster)
        await cluster.until(restarting(cluster))
        await gone(cluster)
        assert [round(grace) for grace in seen if isinstance(grace, float)] == [7]

    in_cluster(scenario)


def test_a_forced_delete_cuts_a_pre_stop_hook_short() -> None:
    async def scenario(cluster: Cluster) -> None:
        hook = {"preStop": {"sleep": {"seconds": 25}}}
        await cluster.client.create("pods", a_pod(container={"lifecycle": hook}))
        await cluster.running("web")
        await cluster.client.delete("pods", "web", "default")
        await cluster.pod_when("web", lambda found: "deletionTimestamp" in found["metadata"])
        assert cluster.runtime.stopped == []
        await cluster.client.delete("pods", "web", "default", grace_period_seconds=0)

        async def clean() -> bool:
            return not cluster.runtime.running and not cluster.network.attached

        await cluster.until(clean)

    in_cluster(scenario)


def test_a_pod_that_ends_is_probed_for_readiness_and_says_so_until_its_containers_have_ended() -> (
    None
):
    async def scenario(cluster: Cluster) -> None:
        answers = {"ok": True}
        cluster.runtime.probe_answer = lambda spec: answers["ok"]
        probe = {"tcpSocket": {"port": 80}, "periodSeconds": 1, "failureThreshold": 1}
        lively = {"httpGet": {"port": 80}, "periodSeconds": 1, "failureThreshold": 1}
        hook = {"preStop": {"sleep": {"seconds": 5}}}
        container = {"readinessProbe": probe, "livenessProbe": lively, "lifecycle": hook}
        await cluster.client.create(
            "pods", a_pod(terminationGracePeriodSeconds=10, container=container)
        )
        await cluster.running("web")
        await cluster.client.delete("pods", "web", "default")
        found = await cluster.pod_when(
            "web", lambda found: "deletionTimestamp" in found["metadata"]
        )
        assert is_ready(found)
        answers["ok"] = False
        found = await cluster.pod_when("web", lambda found: not is_ready(found))
        assert "running" in first(found)["state"]
        assert cluster.runtime.stopped == []

    in_cluster(scenario)


def test_a_post_start_hook_comes_before_readiness_and_one_that_fails_restarts_the_container() -> (
    None
):
    async def scenario(cluster: Cluster) -> None:
        hooks: list[str] = []

        def answer(spec: Any) -> bool:
            hooks.append(spec.argv[0])
            return len(hooks) > 1

        cluster.runtime.probe_answer = answer
        hook = {"postStart": {"exec": {"command": ["hello"]}}}
        await cluster.client.create("pods", a_pod(container={"lifecycle": hook}))
        found = await cluster.running("web")
        assert (first(found)["restartCount"], hooks) == (1, ["hello", "hello"])
        assert await cluster.event("FailedPostStartHook") == "PostStartHook failed"

    in_cluster(scenario)
