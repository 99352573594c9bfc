"""Denials that do not last: they wear off some time after Felix has programmed them, or hold for first SYNs alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import Fault, seconds
from hybridlab.faults.rules import RuleFault

FORGET = 60
"""s.  So long a SYN is known, and taken for a repeated one when it comes again; longer than any system repeats one."""


class DenialWearsOff(Fault):
    """What policy denies on a node is let through so many seconds after Felix programmed a pod there last."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab, self._identity = lab, identity
        self._seconds = seconds("seconds", parameters["seconds"])
        self._felixes = {node: lab.calico.felixes[node] for node in lab.nodes(parameters["node"])}
        self._wearing: dict[str, asyncio.Task[None]] = {}

    async def inject(self) -> None:
        """What is programmed already counts from now on."""
        for node, felix in self._felixes.items():
            felix.faults.on_programmed[self._identity] = partial(self._begin, node)
            await self._begin(node)

    async def heal(self) -> None:
        """Denials last again."""
        for felix in self._felixes.values():
            felix.faults.on_programmed.pop(self._identity, None)
        for task in self._wearing.values():
            task.cancel()
        self._wearing.clear()
        await asyncio.gather(*(self._lab.dataplane.clear_fault_rules(node, self._identity) for node in self._felixes))

    async def evidence(self) -> list[str]:
        """Where denials wear off, and the rules as the kernel has them where they have."""
        found = [
            f"denials of {node} last {self._seconds:g} s"
            for node, felix in self._felixes.items()
            if self._identity in felix.faults.on_programmed
        ]
        for node in self._felixes:
            rules = (await self._lab.dataplane.fault_rules(node)).get(self._identity, ())
            found += [f"{node} {rule}" for rule in rules]
        return found

    async def _begin(self, node: str) -> None:
        if before := self._wearing.pop(node, None):
            before.cancel()
        await self._lab.dataplane.clear_fault_rules(node, self._identity)
        self._wearing[node] = asyncio.create_task(self._wear_off(node))

    async def _wear_off(self, node: str) -> None:
        await asyncio.sleep(self._seconds)
        await self._lab.dataplane.set_fault_rules(node, self._identity, [("f_deny", "accept")])


def first_syns_denied(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Of what policy denies on a node a SYN that is sent again is let through."""
    flow = f"ip saddr . tcp sport . ip daddr . tcp dport timeout {FORGET}s"
    again = f"tcp flags & (syn | ack) == syn meter syns {{ {flow} limit rate over 1/day burst 1 packets }} accept"
    return RuleFault(lab.dataplane, identity, {node: [("f_deny", again)] for node in lab.nodes(parameters["node"])})
