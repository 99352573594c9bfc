# SPDX-License-Identifier: Apache-2.0
"""A node's tunnel and routes, computed from the API's objects: annotations of nodes, IPAM blocks,
pools.

A block of another node is routed only once that node's tunnel endpoint is known, as in Felix. All
functions are pure.
"""

import hashlib
import ipaddress
from collections.abc import Mapping
from dataclasses import replace

from hybridlab.dataplane.model import DirectRoute, NodeRoutes, Tunnel, TunnelRoute
from hybridlab.networks.contract.routing import IPV4_ADDRESS, NodeEnd, RoutingFacts

DEVICE = "vxlan.calico"
IPV4_TUNNEL = "projectcalico.org/IPv4VXLANTunnelAddr"
TUNNEL_MAC = "projectcalico.org/VXLANTunnelMACAddr"


def vtep(name: str, annotations: Mapping[str, str]) -> NodeEnd | None:
    """Return the tunnel endpoint that a node's annotations describe; None while an annotation is
    missing."""
    address = annotations.get(IPV4_ADDRESS)
    tunnel = annotations.get(IPV4_TUNNEL)
    if not address or not tunnel:
        return None
    mac = annotations.get(TUNNEL_MAC) or linux_vtep_mac(name)
    return NodeEnd(address=address.partition("/")[0], tunnel_address=tunnel, tunnel_mac=mac)


def linux_vtep_mac(node: str) -> str:
    """Return the MAC of a Linux node's ``vxlan.calico``: 66 and the first five bytes of its
    name's SHA-1.
    """
    digest = hashlib.sha1(node.encode(), usedforsecurity=False).digest()
    return ":".join(f"{byte:02x}" for byte in (0x66, *digest[:5]))


def tunnel_of(facts: RoutingFacts, node: str, *, vni: int, port: int, mtu: int) -> Tunnel | None:
    """Return the node's own device; None while its tunnel address is not known."""
    own = facts.ends.get(node)
    if own is None:
        return None
    address = own.tunnel_address
    return Tunnel(
        device=DEVICE, identifier=vni, port=port, mtu=mtu, address=address, mac=own.tunnel_mac
    )


def node_routes(
    facts: RoutingFacts, node: str, *, tunnel: bool = True, vni: int | None = None
) -> tuple[NodeRoutes, tuple[str, ...]]:
    """Return the node's routes, and the networks that have no route yet because their node's tunnel
    is unknown.

    Without a ``tunnel`` of its own the node has no remote routes. ``vni``: the VNI of packets on
    remote routes, in place of the VXLAN device's.
    """
    remote: list[TunnelRoute] = []
    unknown: list[str] = []
    for cidr, owner in facts.elsewhere(node):
        end = facts.ends.get(owner)
        if end is None:
            unknown.append(cidr)
            continue
        remote.append(
            TunnelRoute(
                cidr=cidr,
                node_address=end.address,
                tunnel_address=end.tunnel_address,
                tunnel_mac=end.tunnel_mac,
                identifier=vni,
            )
        )
    routes = NodeRoutes(
        own_blocks=facts.own_blocks(node),
        remote_blocks=tuple(remote) if tunnel and node in facts.ends else (),
        pools=facts.pool_cidrs(),
        nat_outgoing=facts.nat_outgoing,
    )
    return routes, tuple(unknown)


def past_the_tunnel(
    facts: RoutingFacts, routes: NodeRoutes, subnet: ipaddress.IPv4Network
) -> NodeRoutes:
    """Return a Linux node's routes. Blocks of pools in cross-subnet mode are routed directly to
    their nodes if these nodes are in the same ``subnet``."""
    near = [
        route
        for route in routes.remote_blocks
        if ipaddress.IPv4Address(route.node_address) in subnet
        and any(
            pool.cross_subnet
            and ipaddress.IPv4Network(route.cidr).subnet_of(ipaddress.IPv4Network(pool.cidr))
            for pool in facts.pools.values()
        )
    ]
    return replace(
        routes,
        remote_blocks=tuple(route for route in routes.remote_blocks if route not in near),
        direct=tuple(
            DirectRoute(cidr=route.cidr, via=route.node_address, protocol=routes.own_protocol)
            for route in near
        ),
    )
