# SPDX-License-Identifier: Apache-2.0
"""Readings of nodes: HNS networks and endpoints on Windows, kernel networking on Linux.

This module only holds readings; claims decide whether they are right.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class BgpPeer(NamedTuple):
    """A peer of a Windows host by Get-BgpPeer: ``Mesh_10_0_0_11``, its address, ``Connected`` or
    another state."""

    name: str
    address: str
    state: str


class BgpRoute(NamedTuple):
    """A route that a Windows host learned, by Get-BgpRouteInformation, with the name of the peer
    that sent it."""

    network: str
    next_hop: str
    peer: str


@dataclass(frozen=True, kw_only=True)
class BgpHost:
    """The BGP configuration of a Windows host's RemoteAccess."""

    service: str = ""
    """The status of the service, ``Running``; empty: there is none, or it is not known."""
    router: str = ""
    """The router's identifier and AS number; empty: there is none, or it is not known."""
    peers: tuple[BgpPeer, ...] = ()
    custom_routes: tuple[str, ...] = ()
    """The networks that the host announces."""
    routes: tuple[BgpRoute, ...] = ()
    errors: dict[str, str] = field(default_factory=dict)
    """The error of each query (``service``, ``router``, ``peer``, ``custom``, ``route``): first the
    error's id, then its message."""


@dataclass(frozen=True, kw_only=True)
class HnsSubnet:
    """A subnet of an HNS network."""

    prefix: str
    """``192.168.1.0/26``."""
    gateway: str
    vsid: int | None
    """The VXLAN network identifier that HNS uses for the subnet; None on networks without one
    (L2Bridge, nat)."""


@dataclass(frozen=True, kw_only=True)
class RemoteSubnet:
    """An overlay network's entry for another node's block: a RemoteSubnetRoute policy."""

    prefix: str
    """``192.168.1.0/26``."""
    provider: str
    """The address of the other node."""
    mac: str
    """The MAC address of the node's end of the overlay, in lower case with colons."""
    vni: int | None
    """The VXLAN network identifier of the packets that are sent there (IsolationId)."""


@dataclass(frozen=True, kw_only=True)
class HnsNetwork:
    """A network of the Host Networking Service, as Get-HnsNetwork shows it."""

    id: str
    name: str
    type: str
    """``Overlay``, ``L2Bridge``, ``nat`` ..."""
    management_address: str = ""
    """The host's own address on which the network is based (ManagementIP); empty: HNS shows none.
    """
    subnets: tuple[HnsSubnet, ...] = ()
    remote_subnets: tuple[RemoteSubnet, ...] = ()
    shows_policies: bool = False
    """The network shows at least one policy. If it shows none, it is unknown which policies the
    network lacks."""
    pods: bool = False
    """True if Felix' setting KUBE_NETWORK names this network as the network of the pods."""
    updated: str = ""
    """UTC, RFC 3339: when HNS last changed the network, or created it; empty: HNS prints no time.
    """


@dataclass(frozen=True, kw_only=True)
class AclRule:
    """An access rule of an endpoint.  Empty addresses and ports mean any."""

    id: str
    """The id that Felix gave the rule (policysets.go); empty for rules without an id from Felix. If
    the same rule is written again, it has the same id."""
    action: str
    direction: str
    protocol: str
    local_addresses: str
    remote_addresses: str
    local_ports: str
    remote_ports: str
    priority: int
    rule_type: str = ""
    """``Switch``, or ``Host`` for the host's firewall; empty: HNS prints no type."""


@dataclass(frozen=True, kw_only=True)
class HnsEndpoint:
    """An endpoint (a pod's adapter, or the host's own), as Get-HnsEndpoint shows it."""

    id: str
    name: str
    address: str
    mac: str
    network: str
    """The id of the endpoint's network."""
    state: str = ""
    """HNS' number for the endpoint's state, as HNS prints it; empty: HNS prints no number."""
    policies: tuple[dict[str, Any], ...] = field(default=(), hash=False)
    """Everything that HNS stores for the endpoint, untyped: NAT, routes, access rules."""
    acls: tuple[AclRule, ...] = ()
    is_remote: bool = False
    """The endpoint stands for an address of another node: kube-proxy makes such endpoints for
    backends."""


@dataclass(frozen=True, kw_only=True)
class LoadBalancer:
    """A load balancer of kube-proxy for a port of a Service, as Get-HnsPolicyList shows it."""

    addresses: tuple[str, ...]
    """The virtual addresses; none for a NodePort."""
    protocol: int
    port: int
    endpoints: tuple[str, ...]
    """The ids of the load balancer's members, in upper case."""


@dataclass(frozen=True, kw_only=True)
class Vxlan:
    """The settings that make a link a VXLAN device."""

    vni: int
    port: int
    """The UDP port to which the device sends, and on which it listens."""
    local: str = ""


@dataclass(frozen=True, kw_only=True)
class Link:
    """A network device."""

    name: str
    mtu: int
    mac: str
    up: bool
    vxlan: Vxlan | None = None


@dataclass(frozen=True, kw_only=True)
class RouteEntry:
    """An IPv4 route of any table."""

    destination: str
    """``192.168.1.0/26``, ``0.0.0.0/0`` for the default."""
    gateway: str
    """The gateway's address; empty if the destination is on the link."""
    device: str
    onlink: bool
    table: int


@dataclass(frozen=True, kw_only=True)
class FdbEntry:
    """The place where a device sends frames for a MAC address."""

    device: str
    mac: str
    destination: str
    """The address of the other tunnel end; empty if there is none."""
    vni: int | None = None
    """The VNI of frames that are sent there; None: the device's own."""
    port: int | None = None
    """The UDP port of the other end; None: the device's own."""


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """The MAC address of an IPv4 address on a device."""

    device: str
    address: str
    mac: str


@dataclass(frozen=True, kw_only=True)
class LinuxFacts:
    """The networking of a Linux node at one moment."""

    node: str
    links: tuple[Link, ...]
    routes: tuple[RouteEntry, ...]
    fdb: tuple[FdbEntry, ...]
    neighbours: tuple[Neighbour, ...]

    @property
    def addresses(self) -> tuple[str, ...]:
        """Return the IPv4 addresses of the node from the kernel's table of local routes."""
        own = (route.destination for route in self.routes if route.table == 255)  # RT_TABLE_LOCAL
        return tuple(
            address
            for address, _, length in (route.partition("/") for route in own)
            if length == "32"
        )

    def link(self, name: str) -> Link | None:
        return next((link for link in self.links if link.name == name), None)
