# SPDX-License-Identifier: Apache-2.0
"""``kubernetes-asyncio``: ``python asynchronous.py KUBECONFIG NAMESPACE``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.stream import WsApiClient

from tests.contract.clients.programs.steps import step

POD = {
    "metadata": {"name": "p", "labels": {"app": "asyncio"}},
    "spec": {"containers": [{"name": "c", "image": "busybox:1.36", "command": ["sleep", "3600"]}]},
}


async def watch_pod(core: Any, namespace: str) -> None:
    events = 0
    async for event in watch.Watch().stream(
        core.list_namespaced_pod, namespace, timeout_seconds=20
    ):
        events += 1
        conditions = event["object"].status.conditions or ()
        if any(item.type == "Ready" and item.status == "True" for item in conditions):
            return
    raise AssertionError(f"no pod was ready in 20 s, {events} events")


async def run_in_pod(core: Any, namespace: str) -> None:
    async with WsApiClient() as api:
        call = client.CoreV1Api(api).connect_get_namespaced_pod_exec
        said = await call(
            "p", namespace, command=["echo", "hi"], stdout=True, stderr=True, stdin=False, tty=False
        )
    assert said.strip() == "hi", repr(said)


async def job(core: Any, namespace: str) -> None:
    spec = {
        "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        }
    }
    batch = client.BatchV1Api(core.api_client)
    assert (await batch.list_namespaced_job(namespace)).items == []
    await batch.create_namespaced_job(namespace, {"metadata": {"name": "j"}, "spec": spec})


async def main() -> None:
    kubeconfig, namespace = sys.argv[1:3]
    await config.load_kube_config(kubeconfig)
    steps: dict[str, Callable[[Any], Awaitable[Any]]] = {
        "create": lambda core: core.create_namespace({"metadata": {"name": namespace}}),
        "create a pod": lambda core: core.create_namespaced_pod(namespace, POD),
        "watch until ready": lambda core: watch_pod(core, namespace),
        "exec": lambda core: run_in_pod(core, namespace),
        "logs": lambda core: core.read_namespaced_pod_log("p", namespace),
        "create a job": lambda core: job(core, namespace),
        "delete the namespace": lambda core: core.delete_namespace(namespace),
    }
    loop = asyncio.get_running_loop()
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)

        def within(work: Callable[[Any], Awaitable[Any]]) -> Callable[[], Any]:
            async def awaited() -> Any:
                return await work(core)

            return lambda: asyncio.run_coroutine_threadsafe(awaited(), loop).result(60)

        for name, work in steps.items():
            await asyncio.to_thread(step, name, within(work))


asyncio.run(main())
