# SPDX-License-Identifier: Apache-2.0
"""The lab that faults are injected into: Calico over a recording data plane, with a gate for the zone."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from hybridlab.api.interference import Interference
from hybridlab.dataplane.model import Zone
from hybridlab.faults.gates import ServiceGate, ZoneGate
from hybridlab.faults.injector import Injector
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import Taps
from hybridlab.networks.registry import fault_types
from tests.unit.hybridlab.builders import a_pod
from tests.unit.hybridlab.calico.cluster_harness import Harness as CalicoBench
from tests.unit.hybridlab.calico.cluster_harness import harness as calico_harness

ZONE = Zone(
    domain="cluster.local",
    a={"web.demo.svc.cluster.local": ("10.96.0.20",), "db.demo.svc.cluster.local": ("10.96.0.30",)},
)


class Lab:
    def __init__(self, calico: CalicoBench, taps: Taps) -> None:
        self.calico, self.dataplane = calico, calico.dataplane
        self.gate = ZoneGate(calico.dataplane.plane)
        self.interference = Interference()
        self.killed: list[tuple[str, str]] = []
        self.services = ServiceGate(calico.dataplane.plane)
        self.parts = LabParts(
            calico.dataplane.plane,
            calico.calico,
            calico.client,
            self.gate,
            self.interference,
            self.kill,
            self.services,
        )
        self.injector = Injector(self.parts, fault_types() | dict(taps.faults))
        taps.put(self.parts)

    async def kill(self, pod: Any, container: Any) -> None:
        self.killed.append((pod["metadata"]["name"], container))

    def rules(self, scope: str) -> list[str]:
        return [rule for rules in self.dataplane.faults.get(scope, {}).values() for rule in rules]


@contextlib.asynccontextmanager
async def lab(profile: str = "default", taps: Taps = Taps()) -> AsyncIterator[Lab]:  # noqa: B008
    async with calico_harness(profile=profile) as calico:
        service = {
            "metadata": {"name": "web", "namespace": "demo"},
            "spec": {
                "type": "NodePort",
                "clusterIP": "10.96.0.20",
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}],
            },
        }
        await calico.client.create("services", service)
        await calico.client.create("pods", a_pod("web-1", namespace="demo", nodeName="linux-1"))
        status = {
            "containerStatuses": [
                {"name": "main", "state": {"running": {}}, "containerID": "containerd://1"}
            ]
        }
        await calico.client.patch("pods", "web-1", {"status": status}, "demo", subresource="status")
        for number in (1, 2):
            name = f"coredns-{number}"
            resolver = a_pod(
                name,
                "coredns/coredns",
                namespace="kube-system",
                labels={"k8s-app": "kube-dns"},
                nodeName="linux-1",
            )
            await calico.client.create("pods", resolver)
            address = {"status": {"podIP": f"192.168.9.{number}"}}
            await calico.client.patch("pods", name, address, "kube-system", subresource="status")
        made = Lab(calico, taps)
        await made.gate.set_zone(ZONE)
        yield made
