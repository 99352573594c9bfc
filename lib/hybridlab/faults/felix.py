# SPDX-License-Identifier: Apache-2.0
"""Faults of Calico's components: late policy, a Felix that crashes, reserved addresses that pods
get."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from hybridlab.api.contract import ApiError, Obj
from hybridlab.calico.felix import Felix
from hybridlab.calico.felix_faults import FelixFaults
from hybridlab.calico.ipam_objects import block_name
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE_OR_ALL, WINDOWS, Entries, Fault, Parameter, Types, seconds
from hybridlab.runtime.contract import RuntimeRefused
from hybridlab.windows.reserved import RESERVED_HANDLE, reserved_ordinals

TYPES = Types()


def of_felix(
    lab: LabParts,
    nodes: Iterable[str],
    identity: str,
    says: str,
    where: Callable[[FelixFaults], dict[str, Any]],
    *,
    value: Any = True,
    put: Callable[[Felix], None] = lambda _: None,
    taken: Callable[[Felix], None] = lambda _: None,
) -> Fault:
    """Return a fault that is an entry in the faults of these nodes' Felixes.

    ``put`` is called for each Felix after the entry was added, ``taken`` after it was removed.
    """
    felixes = {node: lab.calico.felixes[node] for node in nodes}
    tables = {f"Felix of {node} {says}": where(felix.faults) for node, felix in felixes.items()}

    def all_do(act: Callable[[Felix], None]) -> None:
        for felix in felixes.values():
            act(felix)

    return Entries(identity, value, tables, partial(all_do, put), partial(all_do, taken))


@TYPES.fault("policy-late", "policy", NODE_OR_ALL, Parameter("seconds", "the delay in seconds"))
def policy_late(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Policy changes take effect later."""
    late = seconds("seconds", parameters["seconds"])

    def changed(felix: Felix) -> None:
        felix.faults.delay_changed.set()

    return of_felix(
        lab,
        lab.nodes(parameters["node"]),
        identity,
        f"applies policy {late:g} s late",
        lambda faults: faults.delays,
        value=late,
        put=changed,
        taken=changed,
    )


@TYPES.fault("reserved-not-reserved", "ipam", WINDOWS)
class ReservedNotReserved(Fault):
    """A Windows node's block does not reserve its four addresses: the next pod gets .2."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab = lab
        self._node = lab.node_of("windows", parameters["node"])
        blocks = lab.calico.ipam.blocks_of(self._node)
        if not blocks:
            raise BadFault(f"node {self._node} has no IPAM block")
        if not all(block.reserves for block in blocks):
            raise BadFault(f"node {self._node} already has a block that reserves no addresses")

    async def inject(self) -> None:
        """End the reservation, in IPAM and in the IPAMBlock object."""
        self._lab.calico.ipam.unreserve(self._node)
        await self._lab.calico.ipam_saved()

    async def heal(self) -> None:
        """Reserve the free addresses again, and the addresses of pods as soon as the pods are
        gone.
        """
        self._lab.calico.ipam.reserve(self._node)
        await self._lab.calico.ipam_saved()

    async def evidence(self) -> list[str]:
        """Return the addresses that the node's blocks should reserve and do not.

        Such an address is free, or has another owner while the block does not reserve it.
        """
        found: list[str] = []
        for block in self._lab.calico.ipam.blocks_of(self._node):
            name = f"{block_name(block.cidr)}"
            spec = (await self._lab.client.get("ipamblocks.crd.projectcalico.org", name))["spec"]
            for ordinal in reserved_ordinals(block.size):
                index = spec["allocations"][ordinal]
                handle = None if index is None else spec["attributes"][index]["handle_id"]
                if handle is None or (handle != RESERVED_HANDLE and not block.reserves):
                    found.append(
                        f"address {block.address(ordinal)} of {self._node} is not reserved; "
                        f"its IPAM handle: {handle or 'none'}"
                    )
        return found


CONTAINERS = {"calico-node": "calico-node", "calico-node-windows": "felix"}
"""The container in which Felix runs, by the ``k8s-app`` label of its pod."""
LOOK_EVERY = 0.3
"""The interval, in seconds, of checks for a container that runs again."""


@TYPES.fault("felix-crash-loops", "policy", NODE_OR_ALL)
class FelixCrashLoops(Fault):
    """Felix ends as soon as it starts, again and again, and programs nothing."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab = lab
        self._identity = identity
        self._felixes = {node: lab.calico.felixes[node] for node in lab.nodes(parameters["node"])}
        self._on_hosts: list[Felix] = []
        self._killing: asyncio.Task[None] | None = None

    async def inject(self) -> None:
        """From now on, end each Felix as soon as it starts. A Felix that is a process of its host
        is not started again."""
        for felix in self._felixes.values():
            felix.faults.dead[self._identity] = True
        in_pods = {pod["spec"].get("nodeName") for pod in await self._pods()}
        self._on_hosts = [
            felix for node, felix in self._felixes.items() if felix.running and node not in in_pods
        ]
        for felix in self._on_hosts:
            await felix.stop()
        self._killing = asyncio.create_task(self._kill(), name=f"fault {self._identity}")

    async def heal(self) -> None:
        """Start at once each Felix whose container runs; the kubelets start the other Felixes."""
        if self._killing is not None:
            self._killing.cancel()
            await asyncio.gather(self._killing, return_exceptions=True)
            self._killing = None
        for felix in self._felixes.values():
            felix.faults.dead.pop(self._identity, None)
            felix.start_if_asked()
        for felix in self._on_hosts:
            felix.start()
        self._on_hosts = []

    async def evidence(self) -> list[str]:
        return [
            f"Felix of {node} exits whenever it starts"
            for node, felix in self._felixes.items()
            if self._identity in felix.faults.dead
        ]

    async def _kill(self) -> None:
        while True:
            for pod in await self._pods():
                container = CONTAINERS[pod["metadata"]["labels"]["k8s-app"]]
                if pod["spec"].get("nodeName") in self._felixes and _runs(pod, container):
                    with contextlib.suppress(
                        ApiError, RuntimeRefused
                    ):  # it has just ended by itself
                        await self._lab.kill_container(pod, container)
            await asyncio.sleep(LOOK_EVERY)

    async def _pods(self) -> list[Obj]:
        labels = f"k8s-app in ({', '.join(CONTAINERS)})"
        pods, _ = await self._lab.client.list("pods", labels=labels)
        return pods


def _runs(pod: Obj, container: str) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any(
        status["name"] == container and "running" in (status.get("state") or {})
        for status in statuses
    )
