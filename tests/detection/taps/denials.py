# SPDX-License-Identifier: Apache-2.0
"""Denials that do not last: they end some time after Felix programmed them, or hold only for first
SYNs."""

import asyncio
from collections.abc import Mapping
from functools import partial

from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE_OR_ALL, Fault, Parameter, Types, seconds
from hybridlab.faults.rules import RuleFault

TYPES = Types()


@TYPES.fault(
    "denial-wears-off",
    "policy",
    NODE_OR_ALL,
    Parameter("seconds", "how long denials last"),
    Parameter("protocol", "all, tcp or udp", "all", ("all", "tcp", "udp")),
)
class DenialWearsOff(RuleFault):
    """Denied packets pass some time after Felix last programmed a pod of the node."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._seconds = seconds("seconds", parameters["seconds"])
        self._felixes = {node: lab.calico.felixes[node] for node in lab.nodes(parameters["node"])}
        what = "" if parameters["protocol"] == "all" else f"meta l4proto {parameters['protocol']} "
        self._worn_off = ("f_deny", f"{what}accept")
        super().__init__(
            lab.dataplane, identity, {node: [self._worn_off] for node in self._felixes}
        )
        self._wearing: dict[str, asyncio.Task[None]] = {}

    async def inject(self) -> None:
        """Treat policies that are programmed already as having ended."""
        for node, felix in self._felixes.items():
            felix.faults.on_programmed[self._identity] = partial(self._last, node)
        await super().inject()

    async def heal(self) -> None:
        for felix in self._felixes.values():
            felix.faults.on_programmed.pop(self._identity, None)
        for task in self._wearing.values():
            task.cancel()
        await super().heal()

    async def verified(self) -> bool:
        """Return True: the fault waits for denials to end, and they may still hold."""
        return any(self._identity in felix.faults.on_programmed for felix in self._felixes.values())

    async def evidence(self) -> list[str]:
        """Return the rules that let denied packets through, or how long denials still hold."""
        waiting = [
            node
            for node, felix in self._felixes.items()
            if self._identity in felix.faults.on_programmed
        ]
        return await super().evidence() or [
            f"denials of {node} last {self._seconds:g} s" for node in waiting
        ]

    async def _last(self, node: str) -> None:
        if before := self._wearing.pop(node, None):
            before.cancel()
        await self._dataplane.clear_fault_rules(node, self._identity)
        self._wearing[node] = asyncio.create_task(self._wear_off(node))

    async def _wear_off(self, node: str) -> None:
        await asyncio.sleep(self._seconds)
        await self._dataplane.set_fault_rules(node, self._identity, [self._worn_off])


@TYPES.fault("first-syns-denied", "policy", NODE_OR_ALL)
def first_syns_denied(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Policy drops only first SYNs of denied TCP connections: a repeated SYN passes."""
    flow = "ip saddr . tcp sport . ip daddr . tcp dport timeout 60s"
    second = f"meter syns {{ {flow} limit rate over 1/day burst 1 packets }}"
    again = f"tcp flags & (syn | ack) == syn {second} accept"
    return RuleFault(
        lab.dataplane,
        identity,
        {node: [("f_deny", again)] for node in lab.nodes(parameters["node"])},
    )
