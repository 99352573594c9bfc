# SPDX-License-Identifier: Apache-2.0
"""Faults of the paths to other nodes' pods: routes, forwarding and neighbour entries, the VXLAN
device.

While a fault is active, Felix sets these entries wrong. A Windows node's HNS network then shows the
same wrong routes.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hybridlab.calico.felix import Felix
from hybridlab.calico.felix_faults import FelixFaults
from hybridlab.dataplane.model import Entry, NodeRoutes, Tunnel, TunnelRoute
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE, Entries, Fault, Parameter, Types
from hybridlab.faults.rules import NOWHERE
from hybridlab.networks.vxlan.routes import DEVICE

TYPES = Types()
LINUX = Parameter("node", "name of a Linux node", scope="Linux node")
TO = Parameter("to", "name of the other node, or all", "all")
BLOCK_BEFORE = "192.168.171.64/26"
"""The block of an IPIP pool that the cluster once had; no pool of the lab contains the block, so
that no packet is sent to it."""

PATIENCE = 10.0
"""The maximum wait, in seconds, for Felix, which programs its routes in milliseconds."""


class _OfFelix(Entries):
    """A fault of a node's Felix. It takes effect once Felix has programmed its routes or its tunnel
    again."""

    def __init__(
        self,
        lab: LabParts,
        identity: str,
        node: str,
        laid: Callable[[Any], Any],
        where: Callable[[FelixFaults], dict[str, Any]] = lambda faults: faults.routes.taps,
    ) -> None:
        """Describe the fault. ``laid`` receives the routes, or the tunnel, that Felix would make,
        and returns the routes, or the tunnel, that Felix makes with the fault."""
        self._node = node
        self._felix: Felix = lab.calico.felixes[node]
        if not self._felix.running:
            raise BadFault(f"Felix of node {node} does not run")
        super().__init__(
            identity, laid, {"": where(self._felix.faults)}, self._programmed, self._programmed
        )

    async def _programmed(self) -> None:
        """Wait up to PATIENCE seconds until Felix has made its pending changes; if Felix no longer
        runs, ``evidence`` shows that the changes are missing."""
        self._felix.routing.due()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._felix.routing.done()


class BlocksAstray(_OfFelix):
    """A node has wrong routes to the blocks of another node, or of all other nodes."""

    def __init__(
        self,
        lab: LabParts,
        identity: str,
        parameters: Mapping[str, str],
        change: Callable[[TunnelRoute], TunnelRoute],
        words: str,
    ) -> None:
        """Describe the fault. ``change`` receives a correct route and returns the wrong route;
        ``words`` describe the wrong routes."""
        node = lab.node(parameters["node"])
        super().__init__(lab, identity, node, self._laid)
        others = [other for other in lab.nodes(parameters["to"]) if other != node]
        if not others:
            raise BadFault(f"to is {parameters['to']!r}, the node itself; expected another node")
        self._addresses = {lab.address(other): other for other in others}
        self._change = change
        self._words = words
        self._wrong: dict[str, str] = {}

    async def evidence(self) -> list[str]:
        """Return the blocks with routes that were programmed by this fault."""
        wrong = self._wrong if self._identity in self._felix.faults.routes.taps else {}
        routes = self._felix.routing.routes
        there = {block.cidr for block in routes.remote_blocks} if routes else set()
        return [
            f"{self._node} {self._words} {cidr} of {node}"
            for cidr, node in wrong.items()
            if cidr in there
        ]

    def _laid(self, routes: NodeRoutes) -> NodeRoutes:
        return replace(routes, remote_blocks=tuple(map(self._made, routes.remote_blocks)))

    def _made(self, block: TunnelRoute) -> TunnelRoute:
        if block.node_address not in self._addresses:
            return block
        self._wrong[block.cidr] = self._addresses[block.node_address]
        return self._change(block)


@TYPES.fault("route-missing", "underlay", NODE, TO)
def route_missing(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A node has no route to other nodes' blocks; on a Windows node, HNS has no
    RemoteSubnetRoute."""
    return BlocksAstray(lab, identity, parameters, _without("route"), "has no route to")


@TYPES.fault(
    "forwarding-missing",
    "underlay",
    LINUX,
    TO,
    Parameter("entry", "forwarding or neighbour", "forwarding", ("forwarding", "neighbour")),
)
def forwarding_missing(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A Linux node has no forwarding entry, or no neighbour entry, for other nodes' tunnels."""
    lab.node_of("linux", parameters["node"])
    entry: Entry = "neighbour" if parameters["entry"] == "neighbour" else "forwarding"
    return BlocksAstray(lab, identity, parameters, _without(entry), f"has no {entry} entry for")


@TYPES.fault("forwarding-wrong", "underlay", NODE, TO)
def forwarding_wrong(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A node sends packets for other nodes' pods to an address that no node has."""
    words = f"sends to {NOWHERE} the packets for block"
    return BlocksAstray(
        lab, identity, parameters, lambda block: replace(block, node_address=NOWHERE), words
    )


@TYPES.fault("ipip-routes-left", "underlay", LINUX)
class IpipRoutesLeft(_OfFelix):
    """A Linux node still routes a block through the IPIP device, as before the pools had VXLAN."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        node = lab.node_of("linux", parameters["node"])
        super().__init__(
            lab, identity, node, lambda routes: replace(routes, by_ipip=(BLOCK_BEFORE,))
        )

    async def evidence(self) -> list[str]:
        """Return the route, once Felix has set its routes."""
        routes = self._felix.routing.routes
        return [
            f"{self._node} routes {cidr} through tunl0"
            for cidr in (routes.by_ipip if routes else ())
        ]


@TYPES.fault(
    "vxlan-differs",
    "underlay",
    LINUX,
    Parameter("vni", "the VNI", ""),
    Parameter("port", "the UDP port", ""),
)
class DeviceDiffers(_OfFelix):
    """The VXLAN device of a Linux node has another VNI or port than configured."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        node = lab.node_of("linux", parameters["node"])
        super().__init__(lab, identity, node, self._made, lambda faults: faults.tunnels.taps)
        given = {
            name: _number(name, parameters[name]) for name in ("vni", "port") if parameters[name]
        }
        if not given:
            raise BadFault("neither vni nor port is given, expected at least one of them")
        self._vni = given.get("vni")
        self._port = given.get("port")

    async def evidence(self) -> list[str]:
        spec = self._felix.routing.tunnel
        if (
            self._identity not in self._felix.faults.tunnels.taps
            or spec is None
            or self._made(spec) != spec
        ):
            return []
        return [f"{DEVICE} of {self._node} has VNI {spec.identifier} and port {spec.port}"]

    def _made(self, spec: Tunnel) -> Tunnel:
        spec = spec if self._vni is None else replace(spec, identifier=self._vni)
        return spec if self._port is None else replace(spec, port=self._port)


def _without(entry: Entry) -> Callable[[TunnelRoute], TunnelRoute]:
    return lambda block: replace(block, lacks=(*block.lacks, entry))


def _number(name: str, value: str) -> int:
    if not value.isdecimal() or not 0 < int(value) < 1 << 24:
        raise BadFault(f"{name} is {value!r}, expected a number from 1 to 16777215")
    return int(value)
