# SPDX-License-Identifier: Apache-2.0
"""The seats for which worlds are chosen: one Linux and one Windows node, the smallest possible
cluster."""

from __future__ import annotations

from typing import Any

from conformance.policy import worlds
from conformance.policy.worlds import SPACES, SYSTEMS, Seat, World

Obj = dict[str, Any]

RUN = "0a1b2c"
NAMESPACES = {space: f"calico-demo-{RUN}-main-{space}" for space in SPACES}
SEATS = tuple(
    Seat(space, system, f"{system}-1", f"{space}-{system}", f"10.0.0.{64 * node + 10 + number}")
    for node, system in enumerate(SYSTEMS)
    for number, space in enumerate(SPACES)
)
"""Each node has a /26 block, and both blocks are in one /24, as Calico assigns them."""
MANY = tuple(
    Seat(
        space,
        system,
        f"{system}-{node}",
        f"{space}-{system}-{node}",
        f"10.{place}.{node}.{10 + number}",
    )
    for place, system in enumerate(SYSTEMS)
    for node in (1, 2, 3)
    for number, space in enumerate(SPACES)
)
"""The seats of a cluster with three nodes of each system."""
ELSEWHERE = {space: f"calico-demo-{RUN}-gw1-{space}" for space in SPACES}
"""The namespaces of another worker for the same spaces."""
BYSTANDERS: tuple[Obj, ...] = tuple(
    {
        "kind": "Pod",
        "metadata": {
            "name": f"c-{system}",
            "namespace": f"calico-demo-{RUN}-main-c",
            "labels": {"x": "1", "y": "1"},
        },
        "spec": {"nodeName": f"{system}-1", "os": {"name": system}, "containers": [{}]},
        "status": {"podIP": f"10.0.0.{64 * node + 60}"},
    }
    for node, system in enumerate(SYSTEMS)
)
"""Pods of a third namespace, which no world may select."""


def around(world: World) -> list[Obj]:
    """Return all objects except the world's own."""
    return [*worlds.surroundings(world, SEATS, NAMESPACES), *BYSTANDERS]
