# SPDX-License-Identifier: Apache-2.0
"""The entries that two nodes have for each other's pods (routes, forwarding, VNI, port), as the
explanation of a closed path between the nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from conformance.errors import SuiteError, first_line
from conformance.model.endpoint import Target, Workload
from conformance.model.facts import Fact

SHOWN = 3
"""The number of entries that a message names."""


class Entries(Protocol):
    """The readings of nodes that this module needs
    (``conformance.facts.networks.vxlan.VxlanFacts``)."""

    def deviations(self, node: str, toward: str) -> Mapping[str, Fact[str]]:
        """Return the overlay entries of ``node`` for the pods of node ``toward`` that differ from
        the announcements of node ``toward``, or from the configuration."""


@dataclass(frozen=True)
class Blamed:
    """The entries that the nodes at the ends of a dead path have for each other."""

    wrong: tuple[str, ...] = ()
    """Entries that differ from announcements or configuration: ``route of node a to block B of node
    b: no route``."""
    unread: str = ""
    """The reason why some entries are not known; empty if all entries were read."""
    by: str = "overlay"
    """The name that messages use for the carrier of the pods' packets."""
    see: str = "VXLAN-2, VXLAN-3, VXLAN-4 and VXLAN-9"
    """The claims about these entries."""
    do: str = "then restart calico-node on that node (on Windows this resets its pods' connections)"
    """Advice for correcting a wrong entry."""
    sound: str = ""
    """The entries that are right on both nodes. Empty: an entry is wrong or unknown, or the path is
    not between two nodes."""

    @property
    def shown(self) -> str:
        """Return the wrong entries as a line of a message."""
        more = f"; {len(self.wrong) - SHOWN} more" if len(self.wrong) > SHOWN else ""
        return "; ".join(self.wrong[:SHOWN]) + more


def blamed(entries: Entries, source: Workload, target: Target, sound: str = "") -> Blamed:
    """Return the wrong entries that the two nodes have for each other; none if both ends are on the
    same node."""
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
