# SPDX-License-Identifier: Apache-2.0
"""Faults that every plane without an overlay has: the fabric's source check and the
host's endpoint."""

from collections.abc import Mapping

from hybridlab.dataplane.model import FabricTable
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE_OR_ALL, WINDOWS_OR_ALL, Entries, Types
from hybridlab.faults.rules import RuleFault

TYPES = Types()


def _fabric(lab: LabParts) -> FabricTable:
    """Return the underlay's table, with the changes that faults make to it."""
    return lab.calico.plane.fabric(lab.calico.typha.routing)


@TYPES.fault("source-check-on", "underlay", NODE_OR_ALL)
class SourceCheckOn(Entries):
    """The fabric accepts from a node only packets with the node's own address, as clouds do by
    default."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        nodes = lab.nodes(parameters["node"])
        if _fabric(lab).routes:
            raise BadFault(
                "the underlay's routers route blocks to nodes, "
                "so the fabric accepts the addresses of a node's pods"
            )
        self._lab = lab
        checks = lab.calico.plane.source_checks
        words = [f"the fabric checks the source addresses of packets from {node}" for node in nodes]
        super().__init__(
            identity, tuple(nodes), dict.fromkeys(words, checks), self._follow, self._follow
        )

    async def _follow(self) -> None:
        """Make the fabric check the source addresses of all nodes that active faults of this kind
        name."""
        await self._lab.dataplane.set_fabric(_fabric(self._lab))


@TYPES.fault("host-endpoint-missing", "underlay", WINDOWS_OR_ALL)
class HostEndpointMissing(RuleFault):
    """A Windows host has no endpoint of its own in the pods' network. This endpoint is the pods'
    gateway, so the pods reach nothing outside the host."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        nodes = lab.nodes_of("windows", parameters["node"])
        without = [node for node in nodes if lab.calico.windows[node].hns.host_endpoint is None]
        if without:
            raise BadFault(f"node {without[0]} has no host endpoint that could be removed")
        plane = lab.calico.plane
        drop = [("f_policy", f'iifname "{plane.pod_prefix}*" oifname "{plane.device}" drop')]
        super().__init__(lab.dataplane, identity, dict.fromkeys(nodes, drop))
        self._hosts = [
            (lab.calico.windows[node].hns.faults.bare, lab.calico.felixes[node].routing)
            for node in nodes
        ]

    async def inject(self) -> None:
        """Remove the endpoints, which are the pods' gateways."""
        for bare, routing in self._hosts:
            bare.add(self._identity)
            routing.due()
        await super().inject()

    async def heal(self) -> None:
        for bare, routing in self._hosts:
            bare.discard(self._identity)
            routing.due()
        await super().heal()
