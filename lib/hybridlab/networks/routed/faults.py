# SPDX-License-Identifier: Apache-2.0
"""Faults of routes that a cloud or an administrator sets, and of the addresses of pods."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE, Entries, Fault, Parameter, Types
from hybridlab.networks.routed.missing import Missing

TYPES = Types()
PATIENCE = 10.0
"""The maximum wait, in seconds, for routes, which are set in milliseconds."""


class RouteEntries(Entries):
    """A fault that is an entry in a table of the plane, from which the routes are computed
    again."""

    def __init__(
        self, lab: LabParts, identity: str, value: object, table: dict[str, Any], effect: str
    ) -> None:
        self._lab = lab
        super().__init__(identity, value, {effect: table}, self._follow, self._follow)

    async def _follow(self) -> None:
        """Set the routes of every node and of the fabric again."""
        calico = self._lab.calico
        missing_of(self._lab).changed()
        running = [felix for felix in calico.felixes.values() if felix.running]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*(felix.routing.done() for felix in running))
        await self._lab.dataplane.set_fabric(calico.plane.fabric(calico.typha.routing))


def missing_of(lab: LabParts) -> Missing:
    """Return the routes and addresses that faults remove from the lab's plane. Raise BadFault if
    Calico routes its pods."""
    found = getattr(lab.calico.plane, "missing", None)
    if not isinstance(found, Missing):
        raise BadFault("Calico sets the routes to this lab's pods: see route-missing")
    return found


@TYPES.fault("node-route-missing", "underlay", NODE, Parameter("to", "name of the other node"))
def node_route_missing(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A node has no route to the pods of another node, as if the administrator had forgotten it."""
    missing = missing_of(lab)
    node = lab.node(parameters["node"])
    other = lab.node(parameters["to"])
    if lab.calico.plane.fabric(lab.calico.typha.routing).routes:
        raise BadFault(
            "the fabric, not the nodes, has the routes to pods: see fabric-route-missing"
        )
    effect = f"{node} has no route to pods of {other}"
    return RouteEntries(lab, identity, (node, other), missing.node_routes, effect)


@TYPES.fault("fabric-route-missing", "underlay", NODE)
def fabric_route_missing(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The fabric has no route to the pods of a node."""
    missing = missing_of(lab)
    node = lab.node(parameters["node"])
    if not lab.calico.plane.fabric(lab.calico.typha.routing).routes:
        raise BadFault("the nodes, not the fabric, have the routes to pods: see node-route-missing")
    effect = f"the fabric has no route to pods of {node}"
    return RouteEntries(lab, identity, node, missing.fabric_routes, effect)


@TYPES.fault("pod-cidr-full", "ipam", NODE)
def pod_cidr_full(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A node has no address left for another pod: the node's CNI plugin refuses the pod."""
    words = missing_of(lab).words
    full = lab.node(parameters["node"])

    def refused(before: str, node: str) -> str:
        return words(lab.calico.nodes[node]) if node == full else before

    tables = {f"{full} has no address left for pods": lab.calico.pod_network.refusals.taps}
    return Entries(identity, refused, tables)
