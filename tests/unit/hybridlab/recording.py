# SPDX-License-Identifier: Apache-2.0
"""The far end of a Protocol's calls, for tests of callers: it records every call and answers as a
test defines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from hybridlab.calico.cluster import HOST_RULES
from hybridlab.dataplane.contract import DataplaneError, remote_dataplane
from hybridlab.dataplane.model import (
    EndpointProgram,
    FabricTable,
    NodeRoutes,
    NodeSpec,
    PodSpec,
    PolicyUpdate,
    ServiceTable,
    Tunnel,
    Zone,
)


class Recorder:
    """A recorder that replaces a channel in ``kernel.rpc.client``.

    If a subclass or a test defines a method with a call's name, the method answers the call;
    otherwise the answer is None.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        """The calls in order, as (name, arguments)."""

    async def call(self, method: str, params: object = None) -> object:
        assert isinstance(params, dict)
        name = method.rpartition(".")[2]
        self.calls.append((name, params))
        await asyncio.sleep(0)
        answer = getattr(self, name, None)
        return None if answer is None else await answer(**params)

    def count(self, name: str) -> int:
        """Return how often this method was called."""
        return sum(called == name for called, _ in self.calls)


class RecordingDataplane(Recorder):
    """A data plane that stores the state that results from the calls of ``plane``."""

    def __init__(self) -> None:
        super().__init__()
        self.plane = remote_dataplane(self)
        self.nodes: dict[str, NodeSpec] = {}
        self.tunnels: dict[str, Tunnel | None] = {}
        self.routes: dict[str, NodeRoutes] = {}
        self.pods: dict[str, PodSpec] = {}
        self.updates: list[tuple[str, PolicyUpdate]] = []
        self.endpoints: dict[str, dict[str, EndpointProgram]] = {}
        self.sets: dict[str, dict[str, tuple[str, ...]]] = {}
        self.faults: dict[str, dict[str, list[str]]] = {}
        self.hosts: dict[str, dict[str, list[str]]] = {}
        """Rules that block nodes' own traffic to some targets; they are no faults."""
        self.latencies: dict[str, float] = {}
        self.services: dict[str, ServiceTable] = {}
        self.zone: Zone | None = None
        self.fabric = FabricTable()
        self.cut_off: list[str] = []
        self.refuse: str = ""
        """If set, policy updates are refused with this message."""
        self.deaf = False
        """If set, fault rules are accepted but not stored."""

    async def add_node(self, spec: NodeSpec) -> None:
        self.nodes[spec.name], self.tunnels[spec.name] = spec, spec.tunnel

    async def set_tunnel(self, node: str, spec: Tunnel | None) -> None:
        self.tunnels[node] = spec
        self.routes.pop(node, None)

    async def set_routes(self, node: str, routes: NodeRoutes) -> None:
        self.routes[node] = routes

    async def set_fabric(self, table: FabricTable) -> None:
        self.fabric = table

    async def add_pod(self, spec: PodSpec) -> None:
        self.pods[spec.id] = spec

    async def remove_pod(self, pod_id: str) -> None:
        if pod_id not in self.pods:
            raise DataplaneError(f"no pod {pod_id}")
        del self.pods[pod_id]

    async def cut_off_pod(self, pod_id: str) -> None:
        self.cut_off.append(pod_id)

    async def set_services(self, node: str, table: ServiceTable) -> None:
        self.services[node] = table

    async def set_zone(self, zone: Zone) -> None:
        self.zone = zone

    async def update_policy(self, node: str, update: PolicyUpdate) -> None:
        if self.refuse:
            raise DataplaneError(self.refuse)
        self.updates.append((node, update))
        sets, endpoints = self.sets.setdefault(node, {}), self.endpoints.setdefault(node, {})
        sets.update(update.sets)
        for name in update.removed_sets:
            sets.pop(name, None)
        endpoints.update(update.endpoints)
        for uid in update.removed_endpoints:
            endpoints.pop(uid, None)
        for program in endpoints.values():
            for tier in (*program.ingress, *program.egress):
                for rule in tier.rules:
                    named = {
                        *rule.match.src_sets,
                        *rule.match.dst_sets,
                        *rule.match.dst_ip_port_sets,
                    }
                    assert named <= sets.keys(), (
                        f"{node}: sets {named - sets.keys()} were never sent"
                    )

    async def set_fault_rules(
        self, scope: str, name: str, rules: Sequence[tuple[str, str]]
    ) -> None:
        if not self.deaf:
            there = self.hosts if name == HOST_RULES else self.faults
            there.setdefault(scope, {})[name] = [f"{chain}: {rule}" for chain, rule in rules]

    async def clear_fault_rules(self, scope: str, name: str) -> None:
        if not self.deaf:
            there = self.hosts if name == HOST_RULES else self.faults
            there.get(scope, {}).pop(name, None)

    async def set_latency(self, node: str, seconds: float) -> None:
        if not self.deaf:
            self.latencies[node] = seconds

    async def latency(self, node: str) -> float:
        return self.latencies.get(node, 0.0)

    async def fault_rules(self, scope: str) -> dict[str, list[str]]:
        there = {**self.hosts.get(scope, {}), **self.faults.get(scope, {})}
        return {name: list(rules) for name, rules in there.items()}
