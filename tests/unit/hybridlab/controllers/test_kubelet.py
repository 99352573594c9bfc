# SPDX-License-Identifier: Apache-2.0
"""A pod's life on its node, seen through the API as kubectl would."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hybridlab.api.contract import ApiError, Obj, StreamCut, Streams
from hybridlab.dataplane.model import PodSpec
from hybridlab.profiles.model import NodeGroup
from tests.unit.hybridlab.builders import a_pod
from tests.unit.hybridlab.controllers.stand_ins import CLUSTER, Cluster, is_ready


def in_cluster(scenario: Callable[[Cluster], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with Cluster(**options) as cluster:
            await scenario(cluster)

    asyncio.run(run())


def waiting(found: Obj, reason: str) -> Any:
    statuses = found.get("status", {}).get("containerStatuses") or ()
    return any(each["state"].get("waiting", {}).get("reason") == reason for each in statuses)


def first(found: Obj) -> Obj:
    return dict(found["status"]["containerStatuses"][0])


class Channel:
    def __init__(self) -> None:
        self.data = b""

    async def send(self, data: bytes) -> None:
        self.data += data


def test_a_running_pod_says_everything_a_client_may_ask() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod())
        found = await cluster.running("web")
        status, node = found["status"], found["spec"]["nodeName"]
        assert node in {"linux-1", "linux-2"}
        assert (
            status["podIP"]
            == status["podIPs"][0]["ip"]
            == cluster.network.attached[found["metadata"]["uid"]]
        )
        assert status["hostIP"] == cluster.dataplane.nodes[node].address
        assert (
            found["metadata"]["annotations"]["cni.projectcalico.org/podIP"]
            == f"{status['podIP']}/32"
        )
        kinds = {entry["type"]: entry["status"] for entry in status["conditions"]}
        assert kinds == dict.fromkeys(
            (
                "PodReadyToStartContainers",
                "Initialized",
                "Ready",
                "ContainersReady",
                "PodScheduled",
            ),
            "True",
        )
        assert first(found)["containerID"] == f"containerd://{cluster.runtime.started[0].id}"
        assert await cluster.event("Scheduled") == f"Successfully assigned default/web to {node}"
        assert await cluster.event("Started") == "Started container main"

    in_cluster(scenario)


def test_few_writes_bring_a_pod_up() -> None:
    async def scenario(cluster: Cluster) -> None:
        before = (await cluster.client.create("pods", a_pod()))["metadata"]["resourceVersion"]
        await cluster.running("web")
        changes = []
        async for event in cluster.client.watch("pods", since=before):
            changes.append(event)
            if is_ready(event.object):
                break
        assert len(changes) <= 3

    in_cluster(scenario)


def test_an_unknown_image_backs_off_and_says_why_as_containerd_does() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.runtime.unknown.add("nosuch:1")
        await cluster.client.create("pods", a_pod(image="nosuch:1"))
        found = await cluster.pod_when("web", lambda pod: waiting(pod, "ImagePullBackOff"))
        message = first(found)["state"]["waiting"]["message"]
        assert message.startswith(
            'Back-off pulling image "nosuch:1": ErrImagePull: rpc error: code = NotFound'
        )
        assert found["status"]["phase"] == "Pending"
        failed = await cluster.events("Failed")
        assert any(
            text.startswith('Failed to pull image "nosuch:1": rpc error:') for text in failed
        )
        cluster.runtime.unknown.clear()
        await cluster.running("web")

    in_cluster(scenario)


def test_never_pull_needs_the_image_to_be_there() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod(container={"imagePullPolicy": "Never"}))
        await cluster.pod_when("web", lambda pod: waiting(pod, "ErrImageNeverPull"))
        assert not cluster.runtime.started

    in_cluster(scenario)


def test_a_failing_container_crash_loops_and_counts_its_restarts() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.runtime.ends_with["main"] = [1, 2, 3]
        await cluster.client.create("pods", a_pod())
        found = await cluster.pod_when("web", lambda pod: waiting(pod, "CrashLoopBackOff"))
        assert found["status"]["phase"] == "Running"
        assert not is_ready(found)
        found = await cluster.running("web")
        assert first(found)["restartCount"] == 3
        assert first(found)["lastState"]["terminated"]["exitCode"] == 3
        assert (
            "Back-off restarting failed container main in pod web_default("
            in await cluster.event("BackOff")
        )

    in_cluster(scenario)


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [("Never", 0, "Succeeded"), ("Never", 1, "Failed"), ("OnFailure", 0, "Succeeded")],
)
def test_the_restart_policy_decides_how_a_pod_ends(policy: str, code: int, phase: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.runtime.ends_with["main"] = [code]
        await cluster.client.create("pods", a_pod(restartPolicy=policy))
        found = await cluster.pod_when("web", lambda pod: pod["status"]["phase"] == phase)
        assert first(found)["state"]["terminated"]["exitCode"] == code

        async def released() -> bool:
            return not cluster.network.attached

        await cluster.until(released)
        await cluster.client.delete("pods", "web", "default")

    in_cluster(scenario)


def test_a_command_that_cannot_start_is_a_start_error() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create(
            "pods", a_pod(restartPolicy="Never", container={"command": ["missing"]})
        )
        found = await cluster.pod_when("web", lambda pod: pod["status"]["phase"] == "Failed")
        ended = first(found)["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
        assert "executable file not found" in ended["message"]

    in_cluster(scenario)


def windows_pod(user: str, *, on: str = "pod", **more: Any) -> Obj:
    """Return a pod for the Windows node that runs as ``user``, by its own setting or its container's."""
    tolerations = [{"key": "os", "operator": "Exists"}]
    own = {"windowsOptions": {"runAsUserName": user}}
    placed: dict[str, Any] = {
        "nodeSelector": {"kubernetes.io/os": "windows"},
        "tolerations": tolerations,
        "restartPolicy": "Never",
    }
    if on == "pod":
        return a_pod(image="windows/servercore:1", securityContext={**own, **more}, **placed)
    return a_pod(
        image="windows/servercore:1", container={"securityContext": {**own, **more}}, **placed
    )


@pytest.mark.parametrize("on", ["pod", "container"])
@pytest.mark.parametrize("user", ["FooLish", "EXAMPLE\\ContainerUser", "Administrator"])
def test_an_unknown_user_of_a_windows_container_is_a_start_error(user: str, on: str) -> None:
    """What sig-windows' "should not be able to create pods with unknown usernames" waits for."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", windows_pod(user, on=on))
        found = await cluster.pod_when("web", lambda pod: pod["status"].get("phase") == "Failed")
        ended = first(found)["state"]["terminated"]
        assert (ended["reason"], "The user name or password is incorrect." in ended["message"]) == (
            "StartError",
            True,
        )
        assert "The user name or password is incorrect." in await cluster.event("Failed")
        assert not cluster.runtime.started

    in_cluster(scenario)


@pytest.mark.parametrize(
    "user", ["ContainerUser", "containeradministrator", "NT AUTHORITY\\SYSTEM"]
)
def test_users_of_windows_images_run(user: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", windows_pod(user))
        await cluster.running("web")

    in_cluster(scenario)


def test_the_administrator_of_a_windows_container_is_refused_under_run_as_non_root() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create(
            "pods", windows_pod("CONTAINERADMINISTRATOR", runAsNonRoot=True)
        )
        found = await cluster.pod_when(
            "web", lambda pod: waiting(pod, "CreateContainerConfigError")
        )
        why = "container's runAsUserName (CONTAINERADMINISTRATOR) which will be regarded as root identity"
        assert why in first(found)["state"]["waiting"]["message"]
        assert why in await cluster.event("Failed")

    in_cluster(scenario)


def test_init_containers_run_one_after_the_other_before_the_rest() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.runtime.ends_with = {"one": [1, 0], "two": [0]}
        inits = [{"name": name, "image": "busybox:1"} for name in ("one", "two")]
        await cluster.client.create("pods", a_pod(initContainers=inits))
        found = await cluster.running("web")
        assert [spec.name for spec in cluster.runtime.started] == ["one", "one", "two", "main"]
        assert [each["restartCount"] for each in found["status"]["initContainerStatuses"]] == [1, 0]

    in_cluster(scenario)


def test_readiness_follows_its_probe_both_ways_and_says_so() -> None:
    async def scenario(cluster: Cluster) -> None:
        answers = {"ok": False}
        cluster.runtime.probe_answer = lambda spec: answers["ok"]
        probe = {
            "httpGet": {"port": "http", "path": "/r"},
            "periodSeconds": 1,
            "failureThreshold": 1,
        }
        ports = [{"name": "http", "containerPort": 8080}]
        await cluster.client.create(
            "pods", a_pod(container={"readinessProbe": probe, "ports": ports})
        )
        found = await cluster.pod_when("web", lambda pod: pod["status"]["phase"] == "Running")
        assert not is_ready(found)
        condition = next(
            entry for entry in found["status"]["conditions"] if entry["type"] == "Ready"
        )
        assert condition["reason"] == "ContainersNotReady"
        assert condition["message"] == "containers with unready status: [main]"
        answers["ok"] = True
        await cluster.running("web")

    in_cluster(scenario)


def test_a_running_pod_follows_the_condition_of_its_readiness_gate_both_ways() -> None:
    async def scenario(cluster: Cluster) -> None:
        async def gate(value: str) -> None:
            conditions = [
                entry
                for entry in (await cluster.pod("web"))["status"]["conditions"]
                if entry["type"] != "example/gate"
            ]
            conditions.append({"type": "example/gate", "status": value})
            status = {"status": {"conditions": conditions}}
            await cluster.client.patch("pods", "web", status, "default", subresource="status")

        await cluster.client.create(
            "pods", a_pod(readinessGates=[{"conditionType": "example/gate"}])
        )
        found = await cluster.pod_when("web", lambda pod: pod["status"].get("podIP"))
        assert not is_ready(found)
        await gate("True")
        await cluster.running("web")
        await gate("False")
        await cluster.pod_when("web", lambda pod: not is_ready(pod))

    in_cluster(scenario)


def test_a_failed_liveness_probe_restarts_the_container() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.runtime.probe_answer = lambda spec: len(cluster.runtime.started) > 1
        probe = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 1}
        await cluster.client.create("pods", a_pod(container={"livenessProbe": probe}))
        found = await cluster.pod_when(
            "web", lambda pod: first(pod)["restartCount"] if is_ready(pod) else 0
        )
        assert first(found)["restartCount"] == 1
        assert "Liveness probe failed: as told" in await cluster.events("Unhealthy")

    in_cluster(scenario)


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


def test_a_refused_sandbox_is_reported_and_tried_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.network.refusals = 2
        await cluster.client.create("pods", a_pod())
        await cluster.running("web")
        message = await cluster.event("FailedCreatePodSandBox")
        assert message.startswith(
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup"
        )
        assert message.endswith("no more free addresses in the assigned block")

    in_cluster(scenario)


def test_a_pod_waits_for_its_config_map_and_then_follows_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/m"}]}
        volumes = [{"name": "v", "configMap": {"name": "conf"}}]
        await cluster.client.create("pods", a_pod(container=mount, volumes=volumes))
        assert 'configmap "conf" not found' in await cluster.event("FailedMount")
        body = {"metadata": {"name": "conf", "namespace": "default"}, "data": {"k": "1"}}
        await cluster.client.create("configmaps", body)
        await cluster.running("web")
        assert cluster.runtime.started[0].files == {"/m/k": base64.b64encode(b"1").decode()}
        await cluster.client.patch("configmaps", "conf", {"data": {"k": "2"}}, "default")

        async def updated() -> bool:
            return cluster.runtime.updates == [
                (cluster.runtime.started[0].id, {"/m/k": base64.b64encode(b"2").decode()})
            ]

        await cluster.until(updated)

    in_cluster(scenario)


def test_a_container_with_a_missing_key_waits_with_a_config_error() -> None:
    async def scenario(cluster: Cluster) -> None:
        env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k"}}}]
        await cluster.client.create("pods", a_pod(container={"env": env}))
        await cluster.pod_when("web", lambda pod: waiting(pod, "CreateContainerConfigError"))
        await cluster.client.create(
            "configmaps", {"metadata": {"name": "none", "namespace": "default"}, "data": {"k": "v"}}
        )
        await cluster.running("web")
        assert ("X", "v") in cluster.runtime.started[0].env

    in_cluster(scenario)


def test_host_network_pods_have_their_nodes_address_and_no_interface_of_their_own() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod(hostNetwork=True))
        found = await cluster.running("web")
        assert found["status"]["podIP"] == found["status"]["hostIP"]
        assert not cluster.network.attached
        assert cluster.dataplane.pods[found["metadata"]["uid"]].address is None

    in_cluster(scenario)


def test_a_host_process_pod_runs_on_the_windows_host() -> None:
    async def scenario(cluster: Cluster) -> None:
        security = {
            "windowsOptions": {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}
        }
        made = a_pod(
            image="windows/hpc:1",
            hostNetwork=True,
            securityContext=security,
            nodeSelector={"kubernetes.io/os": "windows"},
            tolerations=[{"operator": "Exists"}],
        )
        await cluster.client.create("pods", made)
        found = await cluster.running("web")
        assert found["spec"]["nodeName"] == "win"
        assert cluster.runtime.started[0].host_process
        assert not cluster.network.attached

    in_cluster(scenario)


def test_a_pod_forced_onto_the_wrong_system_is_not_admitted() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod(nodeName="win", os={"name": "linux"}))
        found = await cluster.pod_when("web", lambda pod: pod["status"]["phase"] == "Failed")
        assert found["status"]["reason"] == "PodOSNotSupported"
        assert not cluster.runtime.started

    in_cluster(scenario)


def test_a_pod_forced_onto_a_node_without_room_is_not_admitted() -> None:
    async def scenario(cluster: Cluster) -> None:
        ports = {"ports": [{"containerPort": 80, "hostPort": 8080}]}
        await cluster.client.create("pods", a_pod(nodeName="linux-1", container=ports))
        await cluster.running("web")
        await cluster.client.create("pods", a_pod("other", nodeName="linux-1", container=ports))
        found = await cluster.pod_when("other", lambda pod: pod.get("status", {}).get("reason"))
        assert (found["status"]["phase"], found["status"]["reason"]) == ("Failed", "NodePorts")

    in_cluster(scenario)


def test_a_pod_forced_onto_a_full_node_is_not_admitted() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod(nodeName="tiny"))
        await cluster.running("web")
        await cluster.client.create("pods", a_pod("other", nodeName="tiny"))
        found = await cluster.pod_when("other", lambda pod: pod.get("status", {}).get("reason"))
        assert found["status"]["reason"] == "OutOfpods"
        assert found["status"]["message"].endswith("requested: 1, used: 1, capacity: 1")

    tiny = NodeGroup(name="tiny", os="linux", max_pods=1)
    in_cluster(scenario, profile=replace(CLUSTER, nodes=(*CLUSTER.nodes, tiny)))


def test_an_image_of_another_windows_build_is_refused_on_the_node() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.runtime.builds = (17763,)
        made = a_pod(
            image="windows/servercore:1809", nodeName="win", tolerations=[{"operator": "Exists"}]
        )
        await cluster.client.create("pods", made)
        found = await cluster.pod_when("web", lambda pod: waiting(pod, "ErrImagePull"))
        assert "no match for platform in manifest" in first(found)["state"]["waiting"]["message"]

    in_cluster(scenario)


def test_exec_carries_all_streams_and_the_exit_status() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod())
        found = await cluster.running("web")
        agent = cluster.control_plane.node_agent(found["spec"]["nodeName"])
        assert agent is not None
        stdin = asyncio.StreamReader()
        stdin.feed_data(b"given")
        stdin.feed_eof()
        out, err = Channel(), Channel()
        ended = await agent.exec(
            found, "main", ("x",), Streams(stdin=stdin, stdout=out, stderr=err)
        )
        assert (ended.exit_code, out.data, err.data) == (3, b"out:given", b"err")
        refused = await agent.exec(
            found, "main", ("absent",), Streams(stdin=None, stdout=out, stderr=err)
        )
        assert refused.start_error == 'exec: "absent": not found'
        with pytest.raises(ApiError, match=r'container not found \("other"\)'):
            await agent.exec(found, "other", ("x",), Streams(stdin=None, stdout=out, stderr=err))

    in_cluster(scenario)


def test_a_command_that_runs_holds_one_end_of_each_of_its_three_pipes() -> None:
    """Not both: of 793 descriptors of a lab 612 were pipes."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod())
        found = await cluster.running("web")
        kubelet = cluster.control_plane.kubelets[found["spec"]["nodeName"]]
        streams = Streams(stdin=asyncio.StreamReader(), stdout=Channel(), stderr=Channel())
        before = pipes()
        waiting = asyncio.create_task(kubelet.exec(found, "main", ("wait",), streams))
        for _ in range(20):
            await asyncio.sleep(0)
        assert pipes() - before == 3
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert pipes() == before

    in_cluster(scenario)


def pipes() -> int:
    """Ends of pipes that this process has open."""
    return sum(
        str(path.readlink()).startswith("pipe:")
        for path in Path("/proc/self/fd").iterdir()
        if path.is_symlink()
    )


def test_a_node_whose_network_breaks_cuts_its_execs_and_takes_new_ones() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod())
        found = await cluster.running("web")
        kubelet = cluster.control_plane.kubelets[found["spec"]["nodeName"]]
        streams = Streams(stdin=None, stdout=Channel(), stderr=Channel())
        waiting = asyncio.create_task(kubelet.exec(found, "main", ("wait",), streams))
        await asyncio.sleep(0)
        kubelet.cut_streams()
        with pytest.raises(StreamCut):
            await waiting
        assert (await kubelet.exec(found, "main", ("x",), streams)).exit_code == 3

    in_cluster(scenario)


def test_logs_are_cut_to_the_last_lines_and_stamped() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod())
        found = await cluster.running("web")
        cluster.runtime.lines[cluster.runtime.started[0].id] = [b"one\n", b"two\n", b"three\n"]
        agent = cluster.control_plane.kubelets[found["spec"]["nodeName"]]

        async def read(**more: Any) -> list[bytes]:
            options = {
                "follow": False,
                "previous": False,
                "tail_lines": None,
                "since_seconds": None,
            }
            chosen = {**options, "timestamps": False, "limit_bytes": None, **more}
            return [line async for line in agent.logs(found, "main", **chosen)]

        assert await read(tail_lines=2) == [b"two\n", b"three\n"]
        assert await read(limit_bytes=6) == [b"one\n", b"tw"]
        assert (await read(tail_lines=1, timestamps=True))[0].split(b" ")[1] == b"three\n"
        with pytest.raises(ApiError, match="previous terminated container"):
            await read(previous=True)

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


async def gone(cluster: Cluster) -> None:
    async def none() -> bool:
        return not (await cluster.client.list("pods", "default"))[0]

    await cluster.client.delete("pods", "web", "default")
    await cluster.until(none)


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


def test_nameservers_beyond_three_are_left_out_and_said_to_be() -> None:
    async def scenario(cluster: Cluster) -> None:
        servers = {"nameservers": ["1.1.1.1", "2.2.2.2", "3.3.3.3"]}
        await cluster.client.create("pods", a_pod(dnsConfig=servers))
        await cluster.running("web")
        assert (await cluster.event("DNSConfigForming")).endswith(
            "nameserver line is: 10.96.0.10 1.1.1.1 2.2.2.2"
        )

    in_cluster(scenario)


@pytest.mark.parametrize(
    ("runtime", "install", "refused"),
    [
        ("docker://20.10.21", "services", True),
        ("containerd://1.5.18", "agent", True),
        ("containerd://1.6.20", "services", False),
        ("containerd://1.7.24", "services", False),
        ("docker://20.10.21", "operator", False),
    ],
)
def test_containers_of_the_host_need_a_runtime_that_has_them(
    runtime: str, install: Any, refused: bool
) -> None:
    nodes = tuple(
        replace(group, container_runtime=runtime) if group.os == "windows" else group
        for group in CLUSTER.nodes
    )
    profile = replace(
        CLUSTER,
        nodes=nodes,
        calico=replace(CLUSTER.calico, install=install),
        kube_proxy=replace(CLUSTER.kube_proxy, windows="service"),
    )
    host = {"windowsOptions": {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}}

    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create(
            "pods", a_pod(nodeName="win", hostNetwork=True, securityContext=host)
        )
        found = await cluster.pod_when(
            "web",
            lambda pod: pod["status"].get("reason") or pod["status"].get("containerStatuses"),
        )
        message = str(found["status"].get("message", ""))
        assert (f"not emulated: HostProcess containers by {runtime}" in message) is refused

    in_cluster(scenario, profile=profile)


def test_a_pod_of_the_host_whose_end_came_before_its_sandbox_goes_away() -> None:
    async def scenario(cluster: Cluster) -> None:
        begun = asyncio.Event()

        async def never(spec: PodSpec) -> None:
            begun.set()
            await asyncio.Event().wait()

        cluster.dataplane.add_pod = never  # type: ignore[method-assign]
        await cluster.client.create("pods", a_pod(hostNetwork=True))
        await begun.wait()
        await cluster.client.delete("pods", "web", "default")

        async def gone() -> bool:
            return not (await cluster.client.list("pods"))[0]

        await cluster.until(gone)

    in_cluster(scenario)
