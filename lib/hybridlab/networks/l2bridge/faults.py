# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with BGP and without an overlay alone: daemons, sessions, next hops, the fabric, the host's end."""

import asyncio
import contextlib
from collections.abc import Mapping

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import (
    NODE,
    NODE_OR_ALL,
    WINDOWS,
    WINDOWS_OR_ALL,
    Entries,
    Fault,
    Parameter,
    Types,
)
from hybridlab.faults.rules import RuleFault
from hybridlab.networks.l2bridge.bgp import Bgp, Wrong

TYPES = Types()
PATIENCE = 10.0
"""s.  Routes are laid in milliseconds."""


class Told(Entries):
    """A fault that is an entry in ``Bgp.faults``; routes follow from it."""

    def __init__(
        self, lab: LabParts, identity: str, what: Wrong, where: object, *words: str
    ) -> None:
        """``words``: what is so because of the entry.  Raises BadFault where nobody speaks BGP."""
        found = getattr(lab.calico.plane, "bgp", None)
        if not isinstance(found, Bgp):
            raise BadFault("the lab's nodes do not speak BGP")
        self._lab = lab
        self._bgp = found
        super().__init__(
            identity, (what, where), dict.fromkeys(words, found.faults), self._follow, self._follow
        )

    async def _follow(self) -> None:
        """Every node lays its routes anew."""
        self._bgp.changed()
        running = [felix for felix in self._lab.calico.felixes.values() if felix.running]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*(felix.routing.done() for felix in running))


@TYPES.fault("bgp-stopped", "underlay", NODE)
def bgp_stopped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """BIRD of a Linux node does not run, or RemoteAccess of a Windows node."""
    node = lab.node(parameters["node"])
    program = "bird" if lab.calico.nodes[node].os == "linux" else "RemoteAccess"
    return Told(lab, identity, "stopped", (node, program), f"{program} of {node} does not run")


@TYPES.fault("bgp-peer-down", "underlay", NODE, Parameter("to", "name of the other node"))
def bgp_peer_down(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Two nodes have no BGP session, though both have all others."""
    pair = frozenset((lab.node(parameters["node"]), lab.node(parameters["to"])))
    if len(pair) < 2:
        raise BadFault(f"to is {parameters['to']!r}, the node itself")
    return Told(lab, identity, "down", pair, f"{' and '.join(sorted(pair))} have no session")


@TYPES.fault("confd-silent", "underlay", WINDOWS)
def confd_silent(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """confd of a Windows node runs and writes no BGP configuration."""
    node = lab.node_of("windows", parameters["node"])
    return Told(lab, identity, "unrendered", node, f"{node} is told of no peer")


@TYPES.fault("block-not-announced", "underlay", NODE)
def block_not_announced(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A node announces none of its blocks to its BGP peers."""
    node = lab.node(parameters["node"])
    return Told(lab, identity, "withheld", node, f"{node} announces no block")


@TYPES.fault("next-hop-astray", "underlay", NODE)
def next_hop_astray(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A node announces its blocks with a next hop that is on no other node's link."""
    node = lab.node(parameters["node"])
    return Told(lab, identity, "astray", node, f"{node} announces a next hop on no link")


@TYPES.fault(
    "announces-more", "underlay", WINDOWS, Parameter("network", "the network", "10.96.0.0/12")
)
def announces_more(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A Windows node announces another network besides its blocks."""
    node = lab.node_of("windows", parameters["node"])
    network = parameters["network"]
    return Told(lab, identity, "more", (node, network), f"{node} announces {network}")


@TYPES.fault("node-status-filled", "underlay", WINDOWS)
def node_status_filled(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A Windows node fills the CalicoNodeStatus that asks for it, as Linux nodes do."""
    node = lab.node_of("windows", parameters["node"])
    return Told(lab, identity, "reported", node, f"{node} tells its BGP status")


@TYPES.fault("source-check-on", "underlay", NODE_OR_ALL)
class SourceCheckOn(Told):
    """The fabric takes from a node only what has the node's own address, as clouds do until they are told otherwise."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        nodes = lab.nodes(parameters["node"])
        plane = lab.calico.plane
        if plane.fabric(lab.calico.typha.routing).routes:
            raise BadFault(
                "the underlay's routers route blocks to nodes, so that pods' addresses belong to these"
            )
        words = [f"the fabric checks the sources of {node}" for node in nodes]
        super().__init__(lab, identity, "checked", tuple(nodes), *words)

    async def _follow(self) -> None:
        """The fabric checks those that any such fault names."""
        calico = self._lab.calico
        await self._lab.dataplane.set_fabric(calico.plane.fabric(calico.typha.routing))


@TYPES.fault("host-endpoint-missing", "underlay", WINDOWS_OR_ALL)
class HostEndpointMissing(RuleFault):
    """A Windows host has no endpoint of its own among its pods, whose gateway it is: they reach nothing beyond it."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        nodes = lab.nodes_of("windows", parameters["node"])
        plane = lab.calico.plane
        drop = [("f_policy", f'iifname "{plane.pod_prefix}*" oifname "{plane.device}" drop')]
        super().__init__(lab.dataplane, identity, dict.fromkeys(nodes, drop))
        self._hosts = [
            (lab.calico.windows[node].hns.faults.bare, lab.calico.felixes[node].routing)
            for node in nodes
        ]

    async def inject(self) -> None:
        """Take the endpoints away, and with them the way out."""
        for bare, routing in self._hosts:
            bare.add(self._identity)
            routing.due()
        await super().inject()

    async def heal(self) -> None:
        for bare, routing in self._hosts:
            bare.discard(self._identity)
            routing.due()
        await super().heal()
