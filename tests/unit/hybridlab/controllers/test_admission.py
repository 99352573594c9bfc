# SPDX-License-Identifier: Apache-2.0
"""Pods that a node refuses, and pods of Windows hosts and users."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hybridlab.api.contract import Obj
from hybridlab.profiles.model import NodeGroup
from tests.unit.hybridlab.builders import a_pod
from tests.unit.hybridlab.controllers.pods import first, waiting
from tests.unit.hybridlab.controllers.stand_ins import CLUSTER, Cluster, in_cluster


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
        assert (f"not emulated: HostProcess containers with {runtime}" in message) is refused

    in_cluster(scenario, profile=profile)
