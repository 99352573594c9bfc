# SPDX-License-Identifier: Apache-2.0
"""RemoteAccess of a Windows host: what its BGP cmdlets list, by the sessions of the cluster."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hybridlab.networks.contract.plane import Table
from hybridlab.networks.contract.routing import RoutingFacts
from hybridlab.networks.l2bridge.bgp import Bgp, as_of, services
from hybridlab.profiles.machines import Machine
from hybridlab.windows.host import HostRefused

NOT_CONFIGURED = "BGP is not configured."
"""What every cmdlet says until confd has made a router there (calico#11714)."""
NOT_RUNNING = "RemoteAccess is not running."
"""Deduced: nobody has published what they say while the service is stopped."""


@dataclass(frozen=True)
class RemoteAccess:
    """The service on one host."""

    bgp: Bgp
    machine: Machine
    facts: RoutingFacts

    def tables(self) -> Mapping[str, Callable[[], Table]]:
        """The tables of its cmdlets, by their names in lower case."""
        return {
            "get-bgprouter": self._router,
            "get-bgppeer": self._peers,
            "get-bgpcustomroute": self._custom_routes,
            "get-bgprouteinformation": self._routes,
        }

    def _ready(self) -> str:
        """The node's name.  Raises HostRefused."""
        node = self.machine.name
        if not self.bgp.runs(node, "RemoteAccess"):
            raise HostRefused("remote-access", NOT_RUNNING)
        if not self.bgp.configured(node) or node not in self.facts.ends:
            raise HostRefused("remote-access", NOT_CONFIGURED)
        return node

    def _router(self) -> Table:
        own = self.facts.ends[self._ready()]
        return [{"BgpIdentifier": own.address, "LocalASN": as_of(own, self.facts)}]

    def _peers(self) -> Table:
        node = self._ready()
        return [
            {
                "PeerName": peer.name,
                "LocalIPAddress": self.machine.address,
                "PeerIPAddress": peer.address,
                "PeerASN": peer.asn,
                "ConnectivityStatus": "Connected"
                if self.bgp.connected(node, peer, self.facts)
                else "Connecting",
            }
            for peer in self.bgp.peers(node, self.facts)
        ]

    def _custom_routes(self) -> Table:
        networks = self.bgp.announced(self._ready(), self.facts)
        return [{"Network": networks}] if networks else []

    def _routes(self) -> Table:
        """What was learned: blocks, of Linux nodes the networks of Services, of routers what is beyond them."""
        node = self._ready()
        facts = self.facts
        peers = {peer.node: peer.name for peer in self.bgp.peers(node, facts) if peer.node}
        up = {name for name in peers if self.bgp.established(node, name, facts)}
        nodes = [
            (cidr, owner)
            for cidr, owner in facts.elsewhere(node)
            if owner in up and self.bgp.learns(node, owner, facts)
        ]
        nodes += [
            (cidr, name)
            for name in sorted(up)
            if self.bgp.is_linux(name)
            for cidr in services(facts)
        ]
        found = [(cidr, self.bgp.next_hop(owner, facts), peers[owner]) for cidr, owner in nodes]
        found += [(cidr, peer.address, peer.name) for cidr, peer in self.bgp.beyond(node, facts)]
        return [
            {"DestinationNetwork": cidr, "NextHop": hop, "LearnedFromPeer": name, "State": "Best"}
            for cidr, hop, name in found
        ]
