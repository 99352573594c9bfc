# SPDX-License-Identifier: Apache-2.0
"""NodePorts between nodes: distinguishes a firewall that closes the range of NodePorts from a
NodePort that does not work.

Security groups, network security groups and host firewalls often admit no NodePorts from node to
node. Therefore a test first tries the NodePort of a Linux backend, which should work on every
cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from conformance.errors import ControlBroken, MissingCapability, first_line
from conformance.expect.traffic import Expect
from conformance.model.endpoint import Target, Workload

REMEDY = (
    "open the NodePort range (30000-32767 by default) between the nodes in security groups and host firewalls; "
    "if the range is open, kube-proxy on Linux is broken"
)


@dataclass
class NodePorts:
    """The control of NodePorts for a test."""

    expect: Expect

    def pass_between_nodes(
        self, sources: Sequence[Workload], of_linux: Sequence[Target], *, because: str
    ) -> None:
        """Expect each of these nodes to reach the NodePorts of Linux backends at other nodes.

        Raise MissingCapability if a node does not. Nothing is tried if there is no other node.
        """
        pairs = [
            (source, target)
            for source in sources
            for target in of_linux
            if target.host != source.node_address
        ]
        if not pairs:
            return
        try:
            self.expect.control(pairs, because=because)
        except ControlBroken as closed:
            raise MissingCapability(
                "NodePorts of Linux backends cannot be reached between nodes either: "
                f"{first_line(closed)}",
                REMEDY,
            ) from closed
