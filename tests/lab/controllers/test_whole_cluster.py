# SPDX-License-Identifier: Apache-2.0
"""The control plane over real namespaces, real containers and Calico: the cluster comes up and carries traffic."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.profiles.load import load
from tests.lab.controllers.whole_lab import WholeLab

SYSTEM_PODS = 23
"""Pods of the default profile: 4 of the control plane, 6 kube-proxies and 6 calico-nodes, 7 of Deployments."""


def in_lab(scenario: Callable[[WholeLab], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(60), WholeLab(load("default")) as lab:
            await lab.all_ready(count=SYSTEM_PODS)
            await scenario(lab)

    asyncio.run(run())


def demo_pod(name: str, image: str, build: str = "", **container: Any) -> Obj:
    selector = {"kubernetes.io/os": "linux"}
    if build:
        selector = {"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": build}
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeSelector": selector,
            "tolerations": [{"key": "os", "operator": "Exists", "effect": "NoSchedule"}],
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": image, **container}],
        },
    }


async def deploy(lab: WholeLab, *pods: Obj) -> dict[str, str]:
    """Create pods in a namespace of their own and return their addresses once all are ready."""
    await lab.client.create("namespaces", {"metadata": {"name": "demo"}})
    for pod in pods:
        await lab.client.create("pods", pod, "demo")
    found = await lab.all_ready("demo", len(pods))
    return {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in found}


def test_pods_of_both_systems_reach_each_other_and_services_by_name() -> None:
    async def scenario(lab: WholeLab) -> None:
        addresses = await deploy(
            lab,
            demo_pod("client", "busybox:1.36", command=["sleep", "3600"]),
            demo_pod("server", "nginx:1.27"),
            demo_pod(
                "windows-server",
                "calico/porter:1809",
                "10.0.17763",
                env=[{"name": "SERVE_PORT_80", "value": "hi"}],
            ),
        )
        code, _, said = await lab.exec(
            "demo", "client", "nc", "-vz", "-w", "2", addresses["windows-server"], "80"
        )
        assert (code, said) == (
            0,
            f"{addresses['windows-server']} ({addresses['windows-server']}:80) open\n",
        )
        spec = {"selector": {"app": "server"}, "ports": [{"port": 8080, "targetPort": 80}]}
        await lab.client.create("services", {"metadata": {"name": "web"}, "spec": spec}, "demo")

        async def served() -> bool:
            code, page, _ = await lab.exec(
                "demo", "client", "wget", "-qO-", "-T", "2", "http://web:8080"
            )
            return code == 0 and "nginx" in page

        await lab.until(served)

    in_lab(scenario)


def test_a_readiness_probe_reaches_the_pod_through_the_kernel() -> None:
    async def scenario(lab: WholeLab) -> None:
        probe = {"httpGet": {"port": 80}, "periodSeconds": 1}
        await deploy(lab, demo_pod("server", "nginx:1.27", readinessProbe=probe))
        wrong = {"tcpSocket": {"port": 81}, "periodSeconds": 1}
        await lab.client.create(
            "pods", demo_pod("deaf", "nginx:1.27", readinessProbe=wrong), "demo"
        )

        async def unhealthy() -> list[str]:
            events, _ = await lab.client.list("events", "demo")
            return [event["message"] for event in events if event["reason"] == "Unhealthy"]

        assert (await lab.until(unhealthy))[0].startswith("Readiness probe failed: ")

    in_lab(scenario)


def test_deleting_a_calico_node_windows_pod_restarts_that_nodes_felix() -> None:
    async def scenario(lab: WholeLab) -> None:
        pods, _ = await lab.client.list(
            "pods", "calico-system", labels="k8s-app=calico-node-windows"
        )
        victim = pods[0]["metadata"]["name"]
        told: list[tuple[str, str]] = []
        lab.control_plane.on_container_stopped(lambda node, pod, name: told.append((node, name)))
        await lab.client.delete("pods", victim, "calico-system")

        async def replaced() -> bool:
            found, _ = await lab.client.list(
                "pods", "calico-system", labels="k8s-app=calico-node-windows"
            )
            return len(found) == len(pods) and victim not in {
                pod["metadata"]["name"] for pod in found
            }

        await lab.until(replaced)
        await lab.all_ready("calico-system")
        node = pods[0]["spec"]["nodeName"]
        assert (node, "felix") in told
        assert lab.calico.felixes[node].running

    in_lab(scenario)


def test_a_calico_node_windows_pod_without_its_felix_is_not_ready() -> None:
    async def scenario(lab: WholeLab) -> None:
        before, _ = await lab.client.list(
            "pods", "calico-system", labels="k8s-app=calico-node-windows"
        )
        lab.calico.felixes[before[0]["spec"]["nodeName"]].faults.dead["a test"] = True
        await lab.client.delete("pods", before[0]["metadata"]["name"], "calico-system")

        async def unready() -> list[str]:
            events, _ = await lab.client.list("events", "calico-system")
            return [event["message"] for event in events if event["reason"] == "Unhealthy"]

        assert "felix is not ready" in (await lab.until(unready))[0]

    in_lab(scenario)


def test_a_deleted_namespace_takes_its_pods_out_of_the_data_plane() -> None:
    async def scenario(lab: WholeLab) -> None:
        addresses = await deploy(lab, demo_pod("server", "nginx:1.27"))
        await lab.client.delete("namespaces", "demo")

        async def gone() -> bool:
            found, _ = await lab.client.list("namespaces")
            return "demo" not in {each["metadata"]["name"] for each in found}

        await lab.until(gone)
        routes = [
            str(await lab.dataplane.facts(node)) for node in ("linux-1", "linux-2", "linux-3")
        ]
        assert not any(
            f"{addresses['server']}/32" in text or f"'{addresses['server']}'" in text
            for text in routes
        )

    in_lab(scenario)
