# SPDX-License-Identifier: Apache-2.0
"""Covered nodes: the nodes about which a run decides. They follow from facts and options alone.

By default one node of each Windows build is covered, even above the maximum number. Linux nodes are
covered up to the maximum: first nodes of different subnets, then nodes with other kernels. If the
user names nodes, exactly these nodes are covered.
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
    """A node about which a run decides, and the reason for its choice."""

    node: NodeFacts
    why: str


def covered(os: OS, usable: Sequence[NodeFacts], cover: Cover) -> tuple[Covered, ...]:
    """Return the usable nodes of an OS that are covered, in their order."""
    chosen = (
        {node.name: "every node" for node in usable} if cover.every else _chosen(os, usable, cover)
    )
    return tuple(Covered(node, chosen[node.name]) for node in usable if node.name in chosen)


def _chosen(os: OS, usable: Sequence[NodeFacts], cover: Cover) -> dict[str, str]:
    """Map each covered node to the reason: the user named it, or it differs from the other
    nodes."""
    if named := _named(usable, cover):
        return named
    found: dict[str, str] = {}
    ordinary = [node for node in usable if not node.control_plane]
    # take control planes only if there are fewer than two other nodes for the ends of a path
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
    """Return the nodes that the user names, and the nodes that the user's selector selects."""
    named = {node.name: "named" for node in usable if node.name in cover.nodes}
    if cover.selector:
        fits = [node.name for node in usable if matches(cover.selector, node)]
        named |= dict.fromkeys(fits, f"label {cover.selector}")
    return named


def _unlike(candidates: Sequence[NodeFacts]) -> list[NodeFacts]:
    """Return Linux nodes that differ: one of each subnet, then one of each further kernel, then one
    of each further combination.

    A router between nodes is most likely to show a difference, so subnets come first. All unknown
    subnets count as one subnet (:func:`subnet`).
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
    """Return kernel and subnet of Linux nodes whose combination no covered node has; control planes
    are left out."""
    return sorted(
        {_linux(node) for node in usable if not node.control_plane}
        - {_linux(node) for node in chosen}
    )


def matches(selector: str, node: NodeFacts) -> bool:
    """Return whether a node has all labels of a selector (``pool=windows,zone=a``). A key without a
    value matches any value."""
    for wanted in selector.split(","):
        key, equals, value = wanted.strip().partition("=")
        if key not in node.labels or (equals and node.labels[key] != value):
            return False
    return True


def subnet(node: NodeFacts) -> str:
    """Return the underlay subnet of a node, from Calico's annotation; an empty string if it is not
    known.

    A prefix that holds only one address names no subnet. Google's clouds give such prefixes to
    nodes.
    """
    annotation = node.annotations.get(UNDERLAY, "")
    network = ipaddress.ip_interface(annotation).network if "/" in annotation else None
    return str(network) if network is not None and network.num_addresses > 1 else ""


def _windows(node: NodeFacts) -> str:
    return f"build {node.build}"


def _linux(node: NodeFacts) -> str:
    place = subnet(node)
    return f"kernel {node.kernel_version}{f' in {place}' if place else ''}"
