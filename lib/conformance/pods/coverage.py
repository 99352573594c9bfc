"""Covered nodes: those a run decides on.  Pure: from facts and options.

One node of each Windows build, and of Linux one per underlay subnet and kernel, even above the cap; more up to the cap;
or exactly those that the user names.
"""

from __future__ import annotations

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
    chosen = {node.name: "every node" for node in usable} if cover.every else _chosen(os, usable, cover)
    return tuple(Covered(node, chosen[node.name]) for node in usable if node.name in chosen)


def _chosen(os: OS, usable: Sequence[NodeFacts], cover: Cover) -> dict[str, str]:
    named = {node.name: "named" for node in usable if node.name in cover.nodes}
    if cover.selector:
        fits = [node for node in usable if matches(cover.selector, node)]
        named |= {node.name: f"label {cover.selector}" for node in fits}
    if named:
        return named
    sort: Callable[[NodeFacts], str] = _windows if os == "windows" else _linux
    ordinary = [node for node in usable if not node.control_plane]
    found: dict[str, str] = {}
    candidates = ordinary if len(ordinary) > 1 else usable  # a control plane only where no path would be without it
    for node in candidates:
        if sort(node) not in found.values():
            found[node.name] = sort(node)
    for node in candidates:
        if len(found) < cover.at_most:
            found.setdefault(node.name, f"up to {cover.at_most} {os} nodes")
    return found


def matches(selector: str, node: NodeFacts) -> bool:
    """Whether a node has all labels of a selector: ``pool=windows,zone=a``; a key alone asks for its presence."""
    for wanted in selector.split(","):
        key, equals, value = wanted.strip().partition("=")
        if key not in node.labels or (equals and node.labels[key] != value):
            return False
    return True


def subnet(node: NodeFacts) -> str:
    """The underlay subnet a node stands in, as Calico's annotation tells it; empty: not known."""
    said = node.annotations.get(UNDERLAY, "")
    return str(ipaddress.ip_interface(said).network) if "/" in said else ""


def _windows(node: NodeFacts) -> str:
    return f"build {node.build}"


def _linux(node: NodeFacts) -> str:
    place = subnet(node)
    return f"kernel {node.kernel_version}{f' in {place}' if place else ''}"
