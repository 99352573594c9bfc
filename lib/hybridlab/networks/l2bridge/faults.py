# SPDX-License-Identifier: Apache-2.0
"""Faults of BGP: daemons, sessions, next hops."""

import asyncio
import contextlib
from collections.abc import Mapping

from hybridlab.dataplane.model import OS
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import (
    NODE,
    WINDOWS,
    Entries,
    Fault,
    Parameter,
    Types,
)
from hybridlab.networks.l2bridge.bgp import Bgp, Wrong

TYPES = Types()
PATIENCE = 10.0
"""The maximum wait, in seconds, for routes, which are set in milliseconds."""


class BgpEntries(Entries):
    """A fault that is an entry in ``Bgp.faults``, from which the routes are computed again."""

    def __init__(
        self, lab: LabParts, identity: str, what: Wrong, where: object, *words: str
    ) -> None:
        """Describe the fault; ``words``: its effect in a node's BGP. Raise BadFault if no node
        speaks BGP.
        """
        found = getattr(lab.calico.plane, "bgp", None)
        if not isinstance(found, Bgp):
            raise BadFault("the lab's nodes do not speak BGP")
        self._lab = lab
        self._bgp = found
        super().__init__(
            identity, (what, where), dict.fromkeys(words, found.faults), self._follow, self._follow
        )

    async def _follow(self) -> None:
        """Set every node's routes again."""
        self._bgp.changed()
        running = [felix for felix in self._lab.calico.felixes.values() if felix.running]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*(felix.routing.done() for felix in running))


@TYPES.fault("bgp-stopped", "underlay", NODE)
def bgp_stopped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """On a Linux node BIRD does not run; on a Windows node RemoteAccess does not run."""
    node = lab.node(parameters["node"])
    program = "bird" if lab.calico.nodes[node].os == "linux" else "RemoteAccess"
    return BgpEntries(
        lab, identity, "stopped", (node, program), f"{program} of {node} does not run"
    )


@TYPES.fault("bgp-peer-down", "underlay", NODE, Parameter("to", "name of the other node"))
def bgp_peer_down(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Two nodes have no BGP session with each other, but keep all their other sessions."""
    pair = frozenset((lab.node(parameters["node"]), lab.node(parameters["to"])))
    if len(pair) < 2:
        raise BadFault(f"to is {parameters['to']!r}, the node itself; expected another node")
    return BgpEntries(
        lab, identity, "down", pair, f"{' and '.join(sorted(pair))} have no BGP session"
    )


@TYPES.fault(
    "announces-more", "underlay", WINDOWS, Parameter("network", "the network", "10.96.0.0/12")
)
def announces_more(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A Windows node announces another network in addition to its blocks."""
    node = lab.node_of("windows", parameters["node"])
    network = parameters["network"]
    return BgpEntries(lab, identity, "more", (node, network), f"{node} announces {network}")


def _at_a_node(name: str, os: OS | None, what: Wrong, effect: str, meaning: str) -> None:
    """Declare a fault of a node that is an entry in ``Bgp.faults``. ``os``: the node's operating
    system; None: any."""

    def make(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
        named = parameters["node"]
        node = lab.node_of(os, named) if os else lab.node(named)
        return BgpEntries(lab, identity, what, node, f"{node} {effect}")

    make.__doc__ = meaning
    TYPES.fault(name, "underlay", WINDOWS if os == "windows" else NODE)(make)


_at_a_node(
    "confd-silent",
    "windows",
    "unrendered",
    "has no BGP peers configured",
    "On a Windows node confd runs but writes no BGP configuration.",
)
_at_a_node(
    "block-not-announced",
    None,
    "withheld",
    "announces none of its blocks",
    "A node announces none of its blocks to its BGP peers.",
)
_at_a_node(
    "reflects-nothing",
    "linux",
    "clientless",
    "has no route reflector clients",
    "A route reflector treats no peer as its client: it passes on no routes, although all sessions"
    " are up.",
)
_at_a_node(
    "next-hop-astray",
    None,
    "astray",
    "announces a next hop that no node can reach directly",
    "A node announces its blocks with a next hop that no other node can reach directly.",
)
_at_a_node(
    "node-status-filled",
    "windows",
    "reported",
    "reports its BGP status",
    "A Windows node fills the CalicoNodeStatus that asks for it, as Linux nodes do.",
)
