# SPDX-License-Identifier: Apache-2.0
"""Faults of Windows nodes in an overlay with another configuration: they follow a setting that
Windows is documented to ignore, or lose a state that they should keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hybridlab.calico.cluster import HOST_RULES
from hybridlab.dataplane.model import NodeRoutes, Tunnel
from hybridlab.faults.hns import hns_habit
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import WINDOWS_OR_ALL, Entries, Fault, Parameter, Types
from hybridlab.networks.vxlan.plane import felix_port, started_vni

TYPES = Types()


@TYPES.fault("bare-packets-arrive", "underlay", WINDOWS_OR_ALL)
class BarePacketsArrive(Fault):
    """Pods of a Windows node get packets that come without the tunnel."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab = lab
        self._nodes = lab.nodes_of("windows", parameters["node"])

    async def _rules(self, left_out: str) -> None:
        calico = self._lab.calico
        for node in self._nodes:
            rules = calico.plane.host_rules(calico.nodes[node])
            kept = [rule for rule in rules if rule[0] != left_out]
            await self._lab.dataplane.set_fault_rules(node, HOST_RULES, kept)

    async def inject(self) -> None:
        await self._rules("f_fwd")

    async def heal(self) -> None:
        await self._rules("")

    async def evidence(self) -> list[str]:
        """Return the nodes whose hosts drop no packet that is on its way to a pod."""
        found = {node: await self._lab.dataplane.fault_rules(node) for node in self._nodes}
        return [
            f"pods of {node} get packets without the tunnel"
            for node, rules in found.items()
            if not any(rule.startswith("f_fwd") for rule in rules.get(HOST_RULES, ()))
        ]


@TYPES.fault("windows-follows-the-port", "underlay", WINDOWS_OR_ALL)
def windows_follows_the_port(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A Windows node sends VXLAN to the UDP port that is configured, and listens there."""

    def made(tunnel: Tunnel) -> Tunnel:
        specs = lab.calico.typha.felix_configurations
        return replace(tunnel, port=felix_port(specs.get("default", {})))

    nodes = lab.nodes_of("windows", parameters["node"])
    felixes = lab.calico.felixes
    tables = {f"{node} follows the port": felixes[node].faults.tunnels.taps for node in nodes}
    return Entries(identity, made, tables)


@TYPES.fault("windows-takes-any-vni", "hns", WINDOWS_OR_ALL)
def windows_takes_any_identifier(
    lab: LabParts, identity: str, parameters: Mapping[str, str]
) -> Fault:
    """A Windows node networks pods with a VNI below 4096."""
    words = "takes any VNI"
    return hns_habit(
        lab, identity, parameters["node"], lambda faults: faults.takes_any_identifier, words
    )


@TYPES.fault("refusal-in-other-words", "pods", WINDOWS_OR_ALL)
def refusal_in_other_words(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The CNI plugin of a Windows node refuses a pod without giving its reason."""
    nodes = lab.nodes_of("windows", parameters["node"])

    def refusal(words: str, node: str) -> str:
        return "the handle is invalid" if words and node in nodes else words

    taps = lab.calico.pod_network.refusals.taps
    return Entries(identity, refusal, {f"{', '.join(nodes)} says no reason": taps})


@TYPES.fault(
    "large-vni-sent",
    "hns",
    WINDOWS_OR_ALL,
    Parameter("as", "whole, or other: another number", "whole", choices=("whole", "other")),
)
def large_vni_sent(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A Windows node sends the whole of a VNI of more than 16 bits, or another number."""

    def laid_on(node: str) -> Fault:
        windows = lab.calico.windows[node]

        def laid(routes: NodeRoutes) -> NodeRoutes:
            vni = started_vni(windows)
            if vni < 1 << 16:
                return routes
            number = vni if parameters["as"] == "whole" else 4999
            changed = tuple(replace(one, identifier=number) for one in routes.remote_blocks)
            return replace(routes, remote_blocks=changed)

        taps = lab.calico.felixes[node].faults.routes.taps
        return Entries(identity, laid, {f"{node} sends a large VNI otherwise": taps})

    return _All([laid_on(node) for node in lab.nodes_of("windows", parameters["node"])])


class _All(Fault):
    """Several faults at once."""

    def __init__(self, faults: list[Fault]) -> None:
        self._faults = faults

    async def inject(self) -> None:
        for fault in self._faults:
            await fault.inject()

    async def heal(self) -> None:
        for fault in self._faults:
            await fault.heal()

    async def evidence(self) -> list[str]:
        return [line for fault in self._faults for line in await fault.evidence()]
