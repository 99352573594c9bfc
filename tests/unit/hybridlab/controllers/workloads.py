# SPDX-License-Identifier: Apache-2.0
"""Workloads of a cluster whose nodes are stand-ins."""

from __future__ import annotations

from typing import Any

from hybridlab.api.contract import Obj
from tests.unit.hybridlab.builders import a_deployment
from tests.unit.hybridlab.controllers.stand_ins import Cluster


def deployment(name: str = "web", *, image: str = "nginx:1", replicas: int = 3, **spec: Any) -> Obj:
    ports = [{"name": "http", "containerPort": 8080}]
    return a_deployment(name, image, container={"ports": ports}, replicas=replicas, **spec)


async def pods(cluster: Cluster) -> list[Obj]:
    return (await cluster.client.list("pods", "default"))[0]


async def rolled_out(cluster: Cluster, name: str = "web") -> Obj:
    """Wait for the state that ``kubectl rollout status`` waits for."""

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
