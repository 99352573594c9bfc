"""IPAM blocks and IP pools to what routing is told."""

from __future__ import annotations

import ipaddress
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.calico.routes import BlockFacts, PoolFacts


def block_facts(obj: Obj) -> BlockFacts | None:
    """An IPAMBlock; None while no node has it."""
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
        for ordinal, index in enumerate(spec.get("allocations") or ()):
            if index is not None and users[index] != node:
                borrowed.append((str(network[ordinal]), users[index]))
    return BlockFacts(cidr=spec["cidr"], node=node, borrowed=tuple(borrowed))


def pool_facts(obj: Obj) -> PoolFacts:
    """An IPPool."""
    spec = obj["spec"]
    return PoolFacts(cidr=spec["cidr"], nat_outgoing=bool(spec.get("natOutgoing")))
