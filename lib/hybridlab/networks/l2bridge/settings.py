"""What a profile says of l2bridge networks with BGP."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal

from hybridlab.profiles.model import PlaneSettings, Profile

BROKEN = (((3, 30, 3), (3, 30, 8)), ((3, 31, 0), (3, 31, 5)), ((3, 32, 0), (3, 32, 2)))
"""Releases, from the first to before the second, whose confd configures no BGP on Windows (calico#11714, #13139)."""


@dataclass(frozen=True, kw_only=True)
class Router:
    """A router beyond the cluster, that peers with every node which is told of it; nothing can be sent through it."""

    address: str
    """On the nodes' network, where no node has it."""
    asn: int
    networks: tuple[str, ...] = ()
    """CIDRs that it announces."""

    def problem(self, node_cidr: str) -> str:
        """Why there cannot be such a router; empty: there can."""
        try:
            on_link = ipaddress.IPv4Address(self.address) in ipaddress.IPv4Network(node_cidr)
            for network in self.networks:
                ipaddress.IPv4Network(network)
        except ValueError as error:
            return str(error)
        return "" if on_link else f"{self.address} is not on the nodes' network {node_cidr}"


@dataclass(frozen=True, kw_only=True)
class L2BridgeSettings(PlaneSettings):
    """Calico's BGP without encapsulation, over one subnet."""

    kind: Literal["l2bridge"] = "l2bridge"
    as_shipped: bool = False
    """Releases that configure no BGP on Windows are taken as they were shipped; otherwise they are refused."""

    routers: tuple[Router, ...] = ()
    """They speak BGP; a BGPPeer makes one of them a node's peer."""

    def problem(self, profile: Profile) -> tuple[str, str] | None:
        for router in self.routers:
            if why := router.problem(profile.network.node_cidr):
                return "routers", why
        version = profile.calico.on("windows")
        if broken(version) and not self.as_shipped:
            return "", f"is l2bridge: Calico {version} configures no BGP on Windows, take v3.31.7, or set as_shipped"
        return None


def broken(version: str) -> bool:
    """Whether confd of this release configures no BGP on Windows."""
    found = re.match(r"v(\d+)\.(\d+)\.(\d+)", version)
    numbers = tuple(map(int, found.groups())) if found else ()
    return any(first <= numbers < end for first, end in BROKEN)
