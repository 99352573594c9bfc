# SPDX-License-Identifier: Apache-2.0
"""Covered nodes: those a run decides on.  Pure: from facts and options.

One node of each Windows build, even above the cap; of Linux, up to the cap, nodes of other subnets first, then of other
kernels; more up to the cap; or exactly those that the user names.
"""

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.model.endpoint import OS
from conformance.model.facts import NodeFacts
from conformance.settings import Cover

UNDERLAY = "projectcalico.org/IPv4Address"
"""Annotation of a node with its address and the length of its subnet's prefix: ``10.0.0.11/24``."""


@dataclass(frozen=True)
class Covered:
    """A node that a run decides on, and why it does."""

    node: NodeFacts
    why: str


def covered(os: OS, usable: Sequence[NodeFacts], cover: Cover) -> tuple[Covered, ...]:
    """Which of the usable nodes of one OS are covered, in their order."""
    chosen = (
        {node.name: "every node" for node in usable} if cover.every else _chosen(os, usable, cover)
    )
    return tuple(Covered(node, chosen[node.name]) for node in usable if node.name in chosen)


def _chosen(os: OS, usable: Sequence[NodeFacts], cover: Cover) -> dict[str, str]:
    """Covered nodes to why each is: those that the user names, else those that differ."""
    if named := _named(usable, cover):
        return named
    found: dict[str, str] = {}
    ordinary = [node for node in usable if not node.control_plane]
    # a control plane only where no path would be without it
    candidates = ordinary if len(ordinary) > 1 else usable
    if os == "windows":
        for node in candidates:
            if _windows(node) not in found.values():
                found[node.name] = _windows(node)
    else:
        found |= {node.name: _linux(node) for node in _unlike(candidates)[: cover.at_most]}
    for node in candidates:
        if len(found) < cover.at_most:
            found.setdefault(node.name, f"up to {cover.at_most} {os} nodes")
    return found


def _named(usable: Sequence[NodeFacts], cover: Cover) -> dict[str, str]:
    """Nodes that the user names, and those that have the labels of the user's selector."""
    named = {node.name: "named" for node in usable if node.name in cover.nodes}
    if cover.selector:
        fits = [node.name for node in usable if matches(cover.selector, node)]
        named |= dict.fromkeys(fits, f"label {cover.selector}")
    return named


def _unlike(candidates: Sequence[NodeFacts]) -> list[NodeFacts]:
    """Linux nodes of which no two have kernel and subnet in common: a router between nodes shows most, so it is first.

    It is not so many as there are nodes: where each has a subnet to itself, none is known.
    """
    found: list[NodeFacts] = []
    aspects: tuple[Callable[[NodeFacts], str], ...] = (
        subnet,
        lambda node: node.kernel_version,
        _linux,
    )
    for aspect in aspects:
        for node in candidates:
            if aspect(node) not in map(aspect, found):
                found.append(node)
    return found


def unlike_covered(usable: Sequence[NodeFacts], chosen: Sequence[NodeFacts]) -> list[str]:
    """Kernel and subnet of Linux nodes that no covered node has; control planes left out."""
    seen = {_linux(node) for node in chosen}
    return sorted({_linux(node) for node in usable if not node.control_plane} - seen)


def matches(selector: str, node: NodeFacts) -> bool:
    """Whether a node has all labels of a selector: ``pool=windows,zone=a``; a key alone asks for its presence."""
    for wanted in selector.split(","):
        key, equals, value = wanted.strip().partition("=")
        if key not in node.labels or (equals and node.labels[key] != value):
            return False
    return True


def subnet(node: NodeFacts) -> str:
    """The underlay subnet a node stands in, as Calico's annotation tells it; empty: not known.

    A prefix that holds one address, as Google's clouds give it to nodes, tells of no subnet.
    """
    said = node.annotations.get(UNDERLAY, "")
    network = ipaddress.ip_interface(said).network if "/" in said else None
    return str(network) if network is not None and network.num_addresses > 1 else ""


def _windows(node: NodeFacts) -> str:
    return f"build {node.build}"


def _linux(node: NodeFacts) -> str:
    place = subnet(node)
    return f"kernel {node.kernel_version}{f' in {place}' if place else ''}"
