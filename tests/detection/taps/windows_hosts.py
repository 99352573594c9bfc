# SPDX-License-Identifier: Apache-2.0
"""Faults of Windows hosts' own connections: they reach targets that they are documented not to
reach, or are refused there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hybridlab.calico.cluster import HOST_RULES
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import WINDOWS_OR_ALL, Fault, Types

TYPES = Types()
REJECT = "reject with tcp reset"


@TYPES.fault("host-reaches-all", "underlay", WINDOWS_OR_ALL)
class HostReachesAll(Fault):
    """The host of a Windows node reaches every target to which its routes and Services lead."""

    shown = "nothing keeps the host of"

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab = lab
        self._nodes = lab.nodes_of("windows", parameters["node"])

    def rules(self) -> Sequence[tuple[str, str]]:
        """Return the rules that replace those which block the host's traffic to some targets."""
        return ()

    async def inject(self) -> None:
        for node in self._nodes:
            await self._lab.dataplane.clear_fault_rules(node, HOST_RULES)
            if rules := self.rules():
                await self._lab.dataplane.set_fault_rules(node, HOST_RULES, rules)

    async def heal(self) -> None:
        calico = self._lab.calico
        for node in self._nodes:
            rules = calico.plane.host_rules(calico.nodes[node])
            await self._lab.dataplane.set_fault_rules(node, HOST_RULES, rules)

    async def evidence(self) -> list[str]:
        """Return the nodes whose hosts no rule blocks by dropping packets."""
        found = {node: await self._lab.dataplane.fault_rules(node) for node in self._nodes}
        return [
            f"{self.shown} {node}"
            for node, rules in found.items()
            if not any(rule.endswith("drop") for rule in rules.get(HOST_RULES, ()))
        ]


@TYPES.fault("host-refused", "underlay", WINDOWS_OR_ALL)
class HostRefused(HostReachesAll):
    """Targets that the host of a Windows node cannot reach refuse its connections instead of
    ignoring them."""

    shown = "connections are refused to the host of"

    def rules(self) -> Sequence[tuple[str, str]]:
        plane = self._lab.calico.plane
        goals = (
            f'oifname "{plane.device}" meta l4proto tcp',
            f"ip daddr {plane.profile.network.service_cidr} meta l4proto tcp",
            "fib daddr type local tcp dport 30000-32767",
        )
        return [("f_out", f"ct state new {goal} {REJECT}") for goal in goals]
