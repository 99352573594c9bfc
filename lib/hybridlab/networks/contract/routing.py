# SPDX-License-Identifier: Apache-2.0
"""The data from which routes are computed, read from the API: how nodes announce themselves, IPAM
blocks, IP pools."""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hybridlab.api.contract import Obj

IPV4_ADDRESS = "projectcalico.org/IPv4Address"
"""The annotation by which a node announces its address."""


@dataclass(frozen=True, kw_only=True)
class NodeEnd:
    """A node's announcement of the route to its pods."""

    address: str
    """The node's own address, on the underlay."""
    tunnel_address: str = ""
    """The address of the node's tunnel; empty if the plane has no tunnels."""
    tunnel_mac: str = ""


@dataclass(frozen=True, kw_only=True)
class BlockFacts:
    """The part of an IPAM block that routing needs."""

    cidr: str
    node: str
    borrowed: tuple[tuple[str, str], ...] = ()
    """(address, node) of each address that another node uses."""

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield (network, node) of the block, and of each address that another node borrowed
        from it."""
        yield self.cidr, self.node
        yield from ((f"{address}/32", user) for address, user in self.borrowed)


@dataclass(frozen=True, kw_only=True)
class PoolFacts:
    """The part of an IP pool that routing needs."""

    cidr: str
    nat_outgoing: bool
    cross_subnet: bool = False
    """True: nodes of one subnet reach each other's blocks without the tunnel."""


@dataclass(kw_only=True)
class RoutingFacts:
    """Everything that routes depend on."""

    ends: dict[str, NodeEnd] = field(default_factory=dict)
    blocks: dict[str, BlockFacts] = field(default_factory=dict)
    pools: dict[str, PoolFacts] = field(default_factory=dict)
    peering: dict[str, Obj] = field(default_factory=dict)
    """The spec of each BGPConfiguration, by its name."""
    peers: dict[str, Obj] = field(default_factory=dict)
    """The spec of each BGPPeer, by its name."""

    def elsewhere(self, node: str) -> Iterator[tuple[str, str]]:
        """Yield (network, node) of all networks in which other nodes have pods, in the order of the
        blocks."""
        for block in sorted(self.blocks.values(), key=lambda b: b.cidr):
            yield from ((cidr, owner) for cidr, owner in block.parts() if owner != node)

    def own_blocks(self, node: str) -> tuple[str, ...]:
        return tuple(sorted(block.cidr for block in self.blocks.values() if block.node == node))

    def pool_cidrs(self) -> tuple[str, ...]:
        return tuple(sorted(pool.cidr for pool in self.pools.values()))

    @property
    def nat_outgoing(self) -> bool:
        """Return whether any pool requires source NAT of traffic that leaves the pools."""
        return any(pool.nat_outgoing for pool in self.pools.values())


def block_facts(obj: Obj) -> BlockFacts | None:
    """Return the facts of an IPAMBlock; None while no node has it."""
    spec = obj["spec"]
    affinity = spec.get("affinity") or ""
    if not affinity.startswith("host:"):
        return None
    node = affinity.removeprefix("host:")
    attributes: list[dict[str, Any]] = spec.get("attributes") or []
    users = [(attribute.get("secondary") or {}).get("node", node) for attribute in attributes]
    borrowed: list[tuple[str, str]] = []
    if any(user != node for user in users):
        network = ipaddress.IPv4Network(spec["cidr"])
        borrowed.extend(
            (str(network[ordinal]), users[index])
            for ordinal, index in enumerate(spec.get("allocations") or ())
            if index is not None and users[index] != node
        )
    return BlockFacts(cidr=spec["cidr"], node=node, borrowed=tuple(borrowed))


def pod_cidr_facts(node: Obj) -> BlockFacts | None:
    """Return a node's podCIDR as a block, as libcalico does if USE_POD_CIDR is set."""
    cidr = node["spec"].get("podCIDR")
    return BlockFacts(cidr=cidr, node=node["metadata"]["name"]) if cidr else None


def pool_facts(obj: Obj) -> PoolFacts:
    """Return the facts of an IPPool."""
    spec = obj["spec"]
    return PoolFacts(
        cidr=spec["cidr"],
        nat_outgoing=bool(spec.get("natOutgoing")),
        cross_subnet=spec.get("vxlanMode") == "CrossSubnet",
    )
