"""A node's VXLAN device and routes from what the API says: annotations of nodes, IPAM blocks, pools, Felix' settings.

A block of another node is routed only once that node's tunnel endpoint is known, as Felix does.  Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from hybridlab.dataplane.model import NodeRoutes, RemoteBlock, VxlanSpec

DEFAULT_VNI, DEFAULT_PORT = 4096, 4789
IPV4_ADDRESS = "projectcalico.org/IPv4Address"
IPV4_TUNNEL = "projectcalico.org/IPv4VXLANTunnelAddr"
TUNNEL_MAC = "projectcalico.org/VXLANTunnelMACAddr"


@dataclass(frozen=True)
class Vtep:
    """A node's tunnel endpoint, from its annotations."""

    node_address: str
    tunnel_address: str
    tunnel_mac: str


@dataclass(frozen=True, kw_only=True)
class BlockFacts:
    """What routing needs of an IPAM block."""

    cidr: str
    node: str
    borrowed: tuple[tuple[str, str], ...] = ()
    """(address, node) of what other nodes use of it."""


@dataclass(frozen=True, kw_only=True)
class PoolFacts:
    """What routing needs of an IP pool."""

    cidr: str
    nat_outgoing: bool


@dataclass(kw_only=True)
class RoutingFacts:
    """Everything that routes depend on."""

    vteps: dict[str, Vtep] = field(default_factory=dict)
    blocks: dict[str, BlockFacts] = field(default_factory=dict)
    pools: dict[str, PoolFacts] = field(default_factory=dict)


def vtep(name: str, annotations: Mapping[str, str]) -> Vtep | None:
    """The tunnel endpoint that a node's annotations describe; None while something is missing."""
    address, tunnel = annotations.get(IPV4_ADDRESS), annotations.get(IPV4_TUNNEL)
    if not address or not tunnel:
        return None
    return Vtep(address.partition("/")[0], tunnel, annotations.get(TUNNEL_MAC) or linux_vtep_mac(name))


def linux_vtep_mac(node: str) -> str:
    """MAC of a Linux node's ``vxlan.calico``: 66 and the first five bytes of its name's SHA-1."""
    digest = hashlib.sha1(node.encode(), usedforsecurity=False).digest()
    return ":".join(f"{byte:02x}" for byte in (0x66, *digest[:5]))


def vxlan_spec(facts: RoutingFacts, node: str, *, vni: int, port: int, mtu: int) -> VxlanSpec | None:
    """The node's own device; None while its tunnel address is not known."""
    own = facts.vteps.get(node)
    if own is None:
        return None
    return VxlanSpec(vni=vni, port=port, mtu=mtu, tunnel_address=own.tunnel_address, tunnel_mac=own.tunnel_mac)


def node_routes(
    facts: RoutingFacts, node: str, *, tunnel: bool = True, vni: int | None = None
) -> tuple[NodeRoutes, tuple[str, ...]]:
    """The node's routes, and the networks that cannot be routed yet because their node's tunnel is not known.

    Without a ``tunnel`` of its own the node has no remote routes; ``vni``: what is sent carries this one instead of the
    VXLAN device's.
    """
    own: list[str] = []
    remote: list[RemoteBlock] = []
    unknown: list[str] = []
    for block in sorted(facts.blocks.values(), key=lambda b: b.cidr):
        if block.node == node:
            own.append(block.cidr)
        wanted = [(block.cidr, block.node), *((f"{address}/32", user) for address, user in block.borrowed)]
        for cidr, owner in wanted:
            if owner == node:
                continue
            end = facts.vteps.get(owner)
            if end is None:
                unknown.append(cidr)
                continue
            remote.append(
                RemoteBlock(
                    cidr=cidr,
                    node_address=end.node_address,
                    tunnel_address=end.tunnel_address,
                    tunnel_mac=end.tunnel_mac,
                    vni=vni,
                )
            )
    routes = NodeRoutes(
        own_blocks=tuple(own),
        remote_blocks=tuple(remote) if tunnel and node in facts.vteps else (),
        pools=tuple(sorted(pool.cidr for pool in facts.pools.values())),
        nat_outgoing=any(pool.nat_outgoing for pool in facts.pools.values()),
    )
    return routes, tuple(unknown)
