# SPDX-License-Identifier: Apache-2.0
"""A Calico over a real API in the process and a data plane that records calls."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from hybridlab.api.contract import Client, Obj
from hybridlab.api.core import Core, Settings
from hybridlab.calico.cluster import Calico
from hybridlab.calico.felix_queue import GATHER_SECONDS
from hybridlab.cluster.installs.installed import Installed
from hybridlab.dataplane.pod_network import PodAttachment
from hybridlab.networks.registry import plane_of
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import machines
from tests.unit.hybridlab.recording import RecordingDataplane

PATIENCE = 5.0

DENY = {"metadata": {"name": "deny", "namespace": "demo"}, "spec": {"podSelector": {}}}
POLICIES = "networkpolicies.networking.k8s.io"


@dataclass
class Harness:
    client: Client
    dataplane: RecordingDataplane
    calico: Calico
    logged: list[tuple[str, str]]

    async def pod(
        self,
        name: str,
        node: str,
        namespace: str = "demo",
        asking: dict[str, str] | None = None,
        **labels: str,
    ) -> tuple[Obj, PodAttachment]:
        """Create a pod, connect it and annotate it, as scheduler and kubelet do; ``asking``: the
        pod's annotations."""
        spec: dict[str, Any] = {"nodeName": node, "containers": [{"name": "c", "image": "busybox"}]}
        obj = await self.client.create(
            "pods",
            {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": labels,
                    "annotations": asking or {},
                },
                "spec": spec,
            },
        )
        attachment = await self.calico.pod_network.attach(obj, node)
        annotations = {"metadata": {"annotations": attachment.annotations}}
        return await self.client.patch("pods", name, annotations, namespace), attachment

    async def until(self, test: Callable[[], Any]) -> None:
        """Wait until the test is true; it must become true."""
        async with asyncio.timeout(PATIENCE):
            while not test():  # noqa: ASYNC110 -- what is waited for has no event
                await asyncio.sleep(0.001)

    async def settled(self) -> None:
        """Wait until nothing has been programmed for many of Felix' gathering times.

        Each gathering time is waited for separately: on a busy machine, time may pass without a
        turn of the event loop.
        """
        seen = -1
        while seen != len(self.dataplane.updates):
            seen = len(self.dataplane.updates)
            for _ in range(15):
                await asyncio.sleep(GATHER_SECONDS)

    def program(self, pod: Obj) -> Any:
        node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
        return self.dataplane.endpoints.get(node, {}).get(uid)

    def denies(self, pod: Obj) -> bool:
        """Return whether a pod's program admits nothing but traffic of its own node."""
        program = self.program(pod)
        if "windows" not in pod["spec"]["nodeName"]:
            return any(tier.end == "deny" and not tier.rules for tier in program.ingress)
        taken = [acl for acl in program.acls if acl.direction == "In" and acl.rule_type == "Switch"]
        return [acl.action for acl in taken] == ["Allow", "Block"]


@contextlib.asynccontextmanager
async def harness(
    *overrides: str, profile: str = "default", felix: bool = True
) -> AsyncIterator[Harness]:
    loaded = load(profile, overrides)
    core = Core(
        Settings(calico_v3_api=loaded.calico.v3_api, calico_crd_v1_api=loaded.calico.crd_v1_api),
    )
    client = core.client("admin")
    for name in ("calico-system", "tigera-operator", "demo", "other"):
        labels = {"kubernetes.io/metadata.name": name}
        await client.create("namespaces", {"metadata": {"name": name, "labels": labels}})
    for machine in machines(loaded):
        await client.create("nodes", {"metadata": {"name": machine.name}})
    dataplane, logged = RecordingDataplane(), []
    plane = plane_of(loaded)
    calico = Calico(
        core.client, dataplane.plane, loaded, plane, Installed(loaded, plane),
        log=lambda node, line: logged.append((node, line)),
    )  # fmt: skip
    await calico.start()
    if felix:
        for node in calico.nodes:
            calico.felix_started(node)
    try:
        yield Harness(client, dataplane, calico, logged)
    finally:
        await calico.stop()
