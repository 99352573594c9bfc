# SPDX-License-Identifier: Apache-2.0
"""The limits of the number of agents (running probe programs) that live at once: in all, and on
each Windows node."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.probe.limits import Limits


@dataclass(frozen=True)
class Bound:
    """The limit of live agents, in all or on a node."""

    name: str
    """The name of the slots that the agents hold."""
    count: int
    share: int
    """The number of agents that a process keeps while another process needs agents."""
    node: str = ""
    """The node; empty: all nodes."""


def bound_of(limits: Limits, node: str) -> Bound:
    """Return the limit of live agents on a Windows node; for an empty ``node``, the limit of live
    agents on all nodes together."""
    if node:
        return Bound(f"live-{node}", limits.per_windows_node, limits.share_of_node, node)
    return Bound("agent", limits.agents, limits.share)
