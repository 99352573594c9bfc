# SPDX-License-Identifier: Apache-2.0
"""BIRD of a Linux node: the protocols that ``birdcl`` lists, according to the sessions of the
cluster."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hybridlab.networks.contract.plane import Table
from hybridlab.networks.contract.routing import RoutingFacts
from hybridlab.networks.l2bridge.bgp import Bgp, Peer
from hybridlab.profiles.machines import Machine
from hybridlab.windows.host import HostRefused

NOT_RUNNING = "Unable to connect to server control socket: No such file or directory"
OWN = {"static1": "Static", "kernel1": "Kernel", "device1": "Device", "direct1": "Direct"}
"""BIRD's protocols in addition to BGP, as confd configures them
(confd/etc/calico/confd/templates/bird.cfg.template)."""


@dataclass(frozen=True)
class Bird:
    """The BIRD daemon on one node."""

    bgp: Bgp
    machine: Machine
    facts: RoutingFacts

    def tables(self) -> Mapping[str, Callable[[], Table]]:
        """Return the outputs of ``birdcl``, by the arguments of the command."""
        return {"show protocols": self._protocols}

    def _protocols(self) -> Table:
        node = self.machine.name
        if not self.bgp.runs(node, "bird"):
            raise HostRefused("bird", NOT_RUNNING)
        since = self.bgp.since.get(node, "")
        rows: Table = [
            {
                "name": name,
                "proto": proto,
                "table": "master",
                "state": "up",
                "since": since,
                "info": "",
            }
            for name, proto in OWN.items()
        ]
        for peer in self.bgp.peers(node, self.facts):
            up = self.bgp.connected(node, peer, self.facts)
            state, info = ("up", "Established") if up else ("start", self._waits(peer))
            rows.append(
                {
                    "name": peer.name,
                    "proto": "BGP",
                    "table": "master",
                    "state": state,
                    "since": since,
                    "info": info,
                }
            )
        return rows

    def _waits(self, peer: Peer) -> str:
        """Return the Info of a session that is not up: ``Passive`` if the node waits for the
        peer. In the mesh the end with the higher address connects (bird.cfg.template).
        """
        mine, other = (
            tuple(map(int, address.split("."))) for address in (self.machine.address, peer.address)
        )
        passive = peer.kind == "Mesh" and other > mine
        return "Passive" if passive else "Active        Socket: Connection refused"
