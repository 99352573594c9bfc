# SPDX-License-Identifier: Apache-2.0
"""A profile's settings of l2bridge networks with BGP."""

import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from hybridlab.profiles.model import PlaneSettings, Profile

BROKEN = (((3, 30, 3), (3, 30, 8)), ((3, 31, 0), (3, 31, 5)), ((3, 32, 0), (3, 32, 2)))
"""Releases whose confd configures no BGP on Windows (calico#11714, #13139). Each range begins with
its first release and ends before its second."""


@dataclass(frozen=True, kw_only=True)
class Router:
    """A router that speaks BGP with every node that has the router as a configured peer."""

    address: str
    """The router's address in a network of nodes; no node has this address."""
    asn: int
    networks: tuple[str, ...] = ()
    """The CIDRs that the router announces; no packet reaches them."""
    underlay: bool = False
    """True: the router belongs to the underlay, and has the first address of a subnet of nodes. It
    routes packets by the blocks that it learns, and passes on the blocks that another router of the
    underlay learns."""
    selects: str = ""
    """The nodeSelector of a BGPPeer that exists from the beginning; empty: a user creates the
    BGPPeer."""

    def problem(self, subnets: Collection[str]) -> str:
        """Return the reason why this router is impossible; empty if it is possible."""
        try:
            address = ipaddress.IPv4Address(self.address)
            networks = [ipaddress.IPv4Network(cidr) for cidr in subnets]
            for network in self.networks:
                ipaddress.IPv4Network(network)
        except ValueError as error:
            return f"are invalid: {error}"
        if self.underlay and address not in {network[1] for network in networks}:
            return f"have the underlay router {address}, expected the first address of a network of nodes"
        return (
            ""
            if any(address in network for network in networks)
            else f"have the router {address}, expected an address in a network of nodes"
        )


@dataclass(frozen=True, kw_only=True)
class L2BridgeSettings(PlaneSettings):
    """Calico's BGP without encapsulation."""

    kind: Literal["l2bridge"] = "l2bridge"
    as_shipped: bool = False
    """True: a release that configures no BGP on Windows is used as it was shipped; False: such a
    release is refused. With host-local, such a release's startup on Windows claims a block and
    creates its network from this block; after a manual installation the startup never ends."""

    routers: tuple[Router, ...] = ()
    """The routers that a BGPPeer can make a node's peers."""
    mesh: bool = True
    """True: all nodes peer with each other without a BGPPeer."""
    reflectors: str = ""
    """The peerSelector of a BGPPeer of all nodes that exists from the beginning. It selects the
    nodes that annotations make route reflectors; empty: there is no such BGPPeer."""

    def problem(self, profile: Profile) -> tuple[str, str] | None:
        subnets = {
            profile.network.node_cidr,
            *(group.node_cidr for group in profile.nodes if group.node_cidr),
        }
        for router in self.routers:
            if why := router.problem(subnets):
                return "routers", why
        version = profile.calico.on("windows")
        if broken(version) and not self.as_shipped:
            return (
                "",
                f"is l2bridge, but Calico {version} configures no BGP on Windows: use v3.31.7, or set as_shipped",
            )
        return None


def broken(version: str) -> bool:
    """Return whether confd of this release configures no BGP on Windows."""
    found = re.match(r"v(\d+)\.(\d+)\.(\d+)", version)
    numbers = tuple(map(int, found.groups())) if found else ()
    return any(first <= numbers < end for first, end in BROKEN)
