# SPDX-License-Identifier: Apache-2.0
"""Taps at nodes' routes, and at the output of Windows hosts about routes that they learned or
announce."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hybridlab.dataplane.model import DirectRoute, NodeRoutes
from hybridlab.faults.lab_parts import LabParts
from tests.detection.taps.seams import Put, felixes, put

GONE = "192.168.201.0/26"
"""The block of a node that no longer exists."""
Rows = list[dict[str, Any]]


def another_vni(lab: LabParts) -> None:
    """Let linux-2 and windows-2019 send packets to windows-2022, and only to it, with another VNI
    than their own."""

    def tap(routes: NodeRoutes) -> NodeRoutes:
        wrong = tuple(
            replace(block, identifier=4999) if block.node_address == "10.0.0.14" else block
            for block in routes.remote_blocks
        )
        return replace(routes, remote_blocks=wrong)

    for felix in felixes(lab).values():
        put(felix.faults.routes, tap)


def next_hop(node: str, owner: str, third: str) -> Put:
    """Let BGP give a node the route to another node's blocks with a third node as next hop, which
    forwards."""

    def put_it(lab: LabParts) -> None:
        facts = lab.calico.typha.routing

        def wrong() -> dict[str, str]:
            return dict.fromkeys(facts.own_blocks(owner), facts.ends[third].address)

        def laid(routes: NodeRoutes) -> NodeRoutes:
            hops = wrong()
            direct = (replace(one, via=hops.get(one.cidr, one.via)) for one in routes.direct)
            return replace(routes, direct=tuple(direct))

        def learned(rows: Rows) -> Rows:
            hops = wrong()
            return [
                {**row, "NextHop": hops.get(row["DestinationNetwork"], row["NextHop"])}
                for row in rows
            ]

        put(felixes(lab, [node])[node].faults.routes, laid)
        listed(lab, node, "get-bgprouteinformation", learned)

    return put_it


def listed(lab: LabParts, node: str, cmdlet: str, change: Callable[[Rows], Rows]) -> None:
    """Change the output of a cmdlet on a node."""

    def tap(answer: Any, where: str, question: str) -> Any:
        return change(answer) if (where, question) == (node, cmdlet) else answer

    put(lab.host_answers, tap)


def route_left(node: str, network: str, hop: str) -> Put:
    """Keep, on a node, a route to a block of a node that no longer exists."""
    left = DirectRoute(cidr=network, via=hop, protocol=12)

    def put_it(lab: LabParts) -> None:
        put(
            felixes(lab, [node])[node].faults.routes,
            lambda routes: replace(routes, direct=(*routes.direct, left)),
        )

    return put_it


def announced_too(node: str, owner: str) -> Put:
    """Let a Windows node announce another node's blocks as well; without an owner, the block of a
    node that no longer exists."""

    def put_it(lab: LabParts) -> None:
        def announced(rows: Rows) -> Rows:
            own = [network for row in rows for network in row["Network"]]
            more = lab.calico.typha.routing.own_blocks(owner) if owner else [GONE]
            return [{"Network": [*own, *more]}]

        listed(lab, node, "get-bgpcustomroute", announced)

    return put_it


ODD = "ToR 1 \u00fc <'&\""
"""A peer's name that a user may have typed on a host."""


def odd_names(lab: LabParts) -> None:
    """Let RemoteAccess of windows-2019 list a router without an identifier, a peer with a typed
    name, and a route that no peer announced."""
    node = "windows-2019"

    def peers(rows: Rows) -> Rows:
        more = {"PeerName": ODD, "PeerIPAddress": "10.0.0.1", "ConnectivityStatus": "Connecting"}
        return [{**rows[0], **more}, *rows]

    def routes(rows: Rows) -> Rows:
        more = {"DestinationNetwork": "172.16.0.0/24", "LearnedFromPeer": None}
        return [{**rows[0], **more}, *rows] if rows else rows

    listed(
        lab, node, "get-bgprouter", lambda rows: [{**row, "BgpIdentifier": None} for row in rows]
    )
    listed(lab, node, "get-bgppeer", peers)
    listed(lab, node, "get-bgprouteinformation", routes)


PUTS: dict[str, Put] = {
    "routes odd-names": odd_names,
    "routes another-vni": another_vni,
    "routes by-a-third-node": next_hop("linux-1", "windows-2022", "linux-2"),
    "routes learned-by-a-third-node": next_hop("windows-2019", "linux-1", "linux-2"),
    "routes to-nobody": route_left("linux-2", GONE, "10.0.0.99"),
    "routes announced-of-another": announced_too("windows-2019", "windows-2022"),
    "routes announced-of-nobody": announced_too("windows-2019", ""),
}
"""Map the name of each tap to the function that puts it at its seam."""
