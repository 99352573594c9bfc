# SPDX-License-Identifier: Apache-2.0
"""What nodes have for each other's pods, where a path between them is shut: routes, forwarding, VNI and port."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from conformance.errors import SuiteError, first_line
from conformance.model.endpoint import Target, Workload
from conformance.model.facts import Fact

SHOWN = 3
"""Entries that a message names."""


class Entries(Protocol):
    """What is needed of reading nodes (``conformance.facts.vxlan.VxlanFacts``)."""

    def deviations(self, node: str, toward: str) -> Mapping[str, Fact[str]]:
        """Overlay entries for ``toward``'s pods that are not as announced or configured."""


@dataclass(frozen=True)
class Blamed:
    """What the nodes of one dead path have for each other."""

    wrong: tuple[str, ...] = ()
    """What is not as announced or configured: ``route of node a to block B of node b: no route``."""
    unread: str = ""
    """Why something of it is not known; empty: all was read."""
    by: str = "overlay"
    """What carries pods there, as the line of a message is called."""
    see: str = "VXLAN-2, VXLAN-3, VXLAN-4 and VXLAN-9"
    """The claims about it."""
    sound: str = ""
    """What both nodes have as they should; empty: something of it is wrong or not known, or there are no two nodes."""

    @property
    def shown(self) -> str:
        """What is wrong, as a line of a message has it."""
        more = f"; {len(self.wrong) - SHOWN} more" if len(self.wrong) > SHOWN else ""
        return "; ".join(self.wrong[:SHOWN]) + more


def blamed(entries: Entries, source: Workload, target: Target, sound: str = "") -> Blamed:
    """What is wrong with what both ends' nodes have for each other, there and back; nothing within one node."""
    found: dict[str, None] = {}
    unread = ""
    ends = {server.node: None for server in target.backends if server.node != source.node}
    for server in ends:
        for node, toward in ((source.node, server), (server, source.node)):
            try:
                facts = entries.deviations(node, toward)
            except SuiteError as error:
                unread = unread or f"routes of node {node} could not be read: {first_line(error)}"
            else:
                found |= dict.fromkeys(f"{name}: {fact.value}" for name, fact in facts.items())
    return Blamed(tuple(found), unread, sound=sound if ends and not found and not unread else "")
