# SPDX-License-Identifier: Apache-2.0
"""RemoteAccess of a Windows host: the output of its BGP cmdlets, according to the sessions of the
cluster."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hybridlab.networks.contract.plane import Table
from hybridlab.networks.contract.routing import RoutingFacts
from hybridlab.networks.l2bridge.bgp import Bgp, as_of, services
from hybridlab.profiles.machines import Machine
from hybridlab.windows.host import HostRefused

NOT_CONFIGURED = "BGP is not configured."
"""The answer of every cmdlet until confd has configured a router on the host (calico#11714)."""
NOT_RUNNING = "RemoteAccess is not running."
"""The answer while the service is stopped. The text is deduced: nobody has published it."""


@dataclass(frozen=True)
class RemoteAccess:
    """The service RemoteAccess on one host."""

    bgp: Bgp
    machine: Machine
    facts: RoutingFacts

    def tables(self) -> Mapping[str, Callable[[], Table]]:
        """Return the tables of the service's cmdlets, by the cmdlets' names in lower case."""
        return {
            "get-bgprouter": self._router,
            "get-bgppeer": self._peers,
            "get-bgpcustomroute": self._custom_routes,
            "get-bgprouteinformation": self._routes,
        }

    def _ready(self) -> str:
        """Return the node's name. Raise HostRefused if RemoteAccess does not run or BGP is not
        configured."""
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
        """Return the best learned routes: from nodes to their blocks, from Linux nodes also to the
        networks of Services, from routers to their networks."""
        node = self._ready()
        facts = self.facts
        peers = {peer.node: peer.name for peer in self.bgp.peers(node, facts) if peer.node}
        up = {name for name in peers if self.bgp.established(node, name, facts)}
        nodes = [
            (cidr, owner, teacher)
            for cidr, owner in facts.elsewhere(node)
            if owner in facts.ends
            for teacher in self.bgp.teachers(node, owner, facts)[:1]
            if teacher in up
        ]
        nodes += [
            (cidr, name, name)
            for name in sorted(up)
            if self.bgp.is_linux(name)
            for cidr in services(facts)
        ]
        found = [
            (cidr, self.bgp.next_hop(owner, facts), peers[teacher])
            for cidr, owner, teacher in nodes
        ]
        found += [
            (cidr, peer.address, peer.name)
            for cidr, peer in self.bgp.announced_by_routers(node, facts)
        ]
        return [
            {"DestinationNetwork": cidr, "NextHop": hop, "LearnedFromPeer": name, "State": "Best"}
            for cidr, hop, name in found
        ]
