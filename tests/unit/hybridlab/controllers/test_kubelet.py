# SPDX-License-Identifier: Apache-2.0
"""A pod's life on its node, seen through the API as kubectl would."""

from __future__ import annotations

import asyncio
import base64

import pytest

from hybridlab.dataplane.model import PodSpec
from hybridlab.runtime.model import ContainerSpec
from tests.unit.hybridlab.builders import a_pod, is_ready
from tests.unit.hybridlab.controllers.pods import first, waiting
from tests.unit.hybridlab.controllers.stand_ins import Cluster, in_cluster


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


def test_a_config_map_that_changes_while_a_container_starts_is_followed() -> None:
    async def scenario(cluster: Cluster) -> None:
        start = cluster.runtime.start

        async def slow(spec: ContainerSpec) -> None:
            await cluster.client.patch("configmaps", "conf", {"data": {"k": "2"}}, "default")
            await asyncio.sleep(0.5)  # the kubelet receives it before the container runs
            await start(spec)

        cluster.runtime.start = slow  # type: ignore[method-assign]
        body = {"metadata": {"name": "conf", "namespace": "default"}, "data": {"k": "1"}}
        await cluster.client.create("configmaps", body)
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/m"}]}
        volumes = [{"name": "v", "configMap": {"name": "conf"}}]
        await cluster.client.create("pods", a_pod(container=mount, volumes=volumes))
        await cluster.running("web")
        (spec,) = cluster.runtime.started
        assert spec.files == {"/m/k": base64.b64encode(b"1").decode()}
        assert cluster.runtime.updates == [(spec.id, {"/m/k": base64.b64encode(b"2").decode()})]

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


def test_nameservers_beyond_three_are_left_out_and_said_to_be() -> None:
    async def scenario(cluster: Cluster) -> None:
        servers = {"nameservers": ["1.1.1.1", "2.2.2.2", "3.3.3.3"]}
        await cluster.client.create("pods", a_pod(dnsConfig=servers))
        await cluster.running("web")
        assert (await cluster.event("DNSConfigForming")).endswith(
            "nameserver line is: 10.96.0.10 1.1.1.1 2.2.2.2"
        )

    in_cluster(scenario)


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
