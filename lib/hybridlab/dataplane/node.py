# SPDX-License-Identifier: Apache-2.0
"""A machine of the lab: a network namespace with ``eth0``, the tunnel and the routes that Felix
sets.

It has the node's sockets to the kernel (rtnetlink, nftables, conntrack) and the state that is
programmed through them. Every method runs on the programming thread. Pods' own namespaces are in
``dataplane.pod``.
"""

import contextlib
import errno
import ipaddress
import os
import socket
from dataclasses import replace
from typing import Any

from hybridlab import assumed
from hybridlab.dataplane import syn_again
from hybridlab.dataplane.fabric import Fabric, FabricPort
from hybridlab.dataplane.injection import NODE_CHAINS, NODE_TABLE, Injections
from hybridlab.dataplane.model import (
    Entry,
    HostEndpoint,
    NodeRoutes,
    NodeSpec,
    PolicyUpdate,
    ServiceTable,
    Tunnel,
    TunnelRoute,
)
from hybridlab.dataplane.policy import PolicyTable, base_table
from hybridlab.dataplane.resets import Resets, ResetTarget
from hybridlab.dataplane.services import Services
from hybridlab.dataplane.services import base_table as service_table
from hybridlab.kernel import namespaces, rtdump, slow_wire, sysctl
from hybridlab.kernel.conntrack import ConntrackSocket, concerning
from hybridlab.kernel.nft import Nft
from hybridlab.kernel.rtnetlink import LO_INDEX, PROTO_BOOT, RouteSocket
from hybridlab.kernel.wire import Refused

_ETH0_INDEX = 2
_IPIP = "tunl0"
_PROTO_BIRD = 12
_FIRST_FREE_INDEX = 10
_NOBODY_MAC = "02:00:00:ff:ff:ff"
_TIMEOUTS = {"time_wait": 2, "syn_sent": 10}
"""The maximum seconds for which conntrack lists a connection in a TCP state (Linux: 120 each).

With Linux' values, most connections would soon be in these states, and each policy change reads the
whole list. The shorter times do no harm: on a connection that has ended only late packets follow,
and a first packet without an answer is soon repeated or given up.
"""
SOURCES_BETWEEN_PODS = {"own": "", "client's node": "ip saddr @pools ip daddr @pools"}
"""The match of the traffic whose source is translated, for each source address that the lab may
assume servers receive from a Windows client pod."""
_GONE = frozenset({errno.ESRCH, errno.ENOENT, errno.ENODEV})

_OUTGOING_TABLE = """
table ip outgoing {
  set pools { type ipv4_addr; flags interval; }
  chain sources {
  }
  chain o_post {
    type nat hook postrouting priority 99; policy accept;
    jump sources
  }
}
"""

_OVERLAY_TABLE = """
table ip overlay {
  chain untracked {
  }
  chain x_pre { type filter hook prerouting priority raw; policy accept; jump untracked; }
  chain x_out { type filter hook output priority raw; policy accept; jump untracked; }
}
"""
"""Packets of the tunnel itself are not tracked, as with Felix, since their two directions never
match: the source ports differ (Calico's felix/rules/static.go). Otherwise every connection between
nodes would leave two entries that nothing uses."""


class Node:
    """A node and everything programmed on it."""

    def __init__(self, spec: NodeSpec, fabric: Fabric) -> None:
        self.spec = spec
        self.netns = namespaces.new_netns()
        """A file descriptor that this object owns."""
        self._next_index = _FIRST_FREE_INDEX
        self._tunnel_index: int | None = None
        self._routes = NodeRoutes(own_blocks=(), remote_blocks=())
        self._host_endpoint: tuple[int, HostEndpoint] | None = None
        self._pods: dict[str, int] = {}
        """The index of the pod's interface, by the pod's address."""
        self._departed: set[str] = set()
        self._ends: dict[str, tuple[str, str, str]] = {}
        self._resets: Resets | None = None
        self.port = fabric.plug(
            self.netns, mac=_node_mac(spec.address), mtu=spec.underlay_mtu, index=_ETH0_INDEX
        )
        with namespaces.entered(self.netns):
            # A new namespace may inherit other values of these settings from its machine.
            sysctl.write("net/ipv6/conf/all/disable_ipv6", 1, optional=True)
            sysctl.write("net/ipv4/ip_forward", 1)
            sysctl.write("net/ipv4/conf/all/rp_filter", 0)
            sysctl.write("net/ipv4/conf/default/rp_filter", 0)
            sysctl.write("net/ipv4/conf/eth0/rp_filter", 0)
            for state, seconds in _TIMEOUTS.items():
                sysctl.write(
                    f"net/netfilter/nf_conntrack_tcp_timeout_{state}", seconds, optional=True
                )
            self.route = RouteSocket()
            self._nft = Nft(spec.name)
            self._conntrack = ConntrackSocket()
        self._bring_up()
        of_pods = base_table(spec.os, spec.pod_prefix) + service_table(
            spec.pod_prefix, spec.service_cidr
        )
        of_pods += syn_again.base_table(spec.os, spec.pod_prefix)
        self._nft.run(NODE_TABLE + of_pods + _OUTGOING_TABLE + _OVERLAY_TABLE)
        self.policy = PolicyTable(self._nft, spec.os)
        self.services = Services(self._nft, self._conntrack)
        self.injections = Injections(self._nft, NODE_CHAINS)
        if spec.tunnel is not None:
            self.set_tunnel(spec.tunnel)

    def _bring_up(self) -> None:
        gateway = _gateway(self.spec)
        self.route.set_link(LO_INDEX, what="lo")
        self.route.set_link(_ETH0_INDEX, what="eth0")
        self.route.add_address(_ETH0_INDEX, self.spec.address, self.spec.prefix_length)
        # Without a default route a ClusterIP would be unreachable before it is translated. Other
        # packets by this route vanish.
        self.route.set_neighbour(_ETH0_INDEX, gateway, _NOBODY_MAC)
        self.route.set_route("0.0.0.0/0", via=gateway, index=_ETH0_INDEX, protocol=PROTO_BOOT)
        self.route.flush()

    def finish_frames(self, *, finish: bool) -> None:
        """Make the kernel complete frames that leave through ``eth0`` (checksums, segments);
        without ``finish``, leave this work to ``eth0`` again."""
        with namespaces.entered(self.netns):
            slow_wire.finish_frames("eth0", finish=finish)

    def know_outside(self, address: str, mac: str) -> None:
        """Make a host outside the cluster reachable from this node."""
        self.route.set_neighbour(_ETH0_INDEX, address, mac)
        self.route.set_route(f"{address}/32", index=_ETH0_INDEX, protocol=PROTO_BOOT)
        self.route.flush()

    def meet_router(self, mac: str | None) -> None:
        """Route packets without a more specific route to the underlay's router; None: there is no
        router, and these packets vanish."""
        self.route.set_neighbour(_ETH0_INDEX, _gateway(self.spec), mac or _NOBODY_MAC)
        self.route.flush()

    @property
    def on_fabric(self) -> FabricPort:
        own = ipaddress.IPv4Interface(f"{self.spec.address}/{self.spec.prefix_length}")
        return FabricPort(number=self.port, address=own, mac=self.mac, gateway=_gateway(self.spec))

    @property
    def mac(self) -> str:
        return _node_mac(self.spec.address)

    def new_index(self) -> int:
        """Return an interface index that no device of this node has or had."""
        self._next_index += 1
        return self._next_index

    def set_tunnel(self, spec: Tunnel | None) -> None:
        """Replace the tunnel; its routes, neighbours and forwarding entries are removed with the
        old tunnel."""
        if self._tunnel_index is not None:
            self.route.delete_link(self._tunnel_index, "the tunnel")
            self.route.flush()
            self._tunnel_index = None
            self._routes = replace(self._routes, remote_blocks=())
        if spec is None:
            return
        index = self.new_index()
        self.route.add_tunnel(
            spec.device,
            index=index,
            identifier=spec.identifier,
            port=spec.port,
            mtu=spec.mtu,
            mac=spec.mac,
            local=self.spec.address,
            device=_ETH0_INDEX,
        )
        self._nft.run(
            f"flush chain ip overlay untracked\nadd rule ip overlay untracked udp dport {spec.port} notrack"
        )
        self.route.add_address(index, spec.address, 32)
        self.route.flush()
        self._tunnel_index = index

    def set_routes(self, routes: NodeRoutes) -> None:
        """Program all pod routing of the node, and remove outdated entries.

        Raise Refused, after programming all other routes, for routes with a next hop outside this
        node's underlay.
        """
        if routes.remote_blocks and self._tunnel_index is None:
            raise Refused(
                f"node {self.spec.name} has no tunnel for its route to "
                f"{routes.remote_blocks[0].cidr}"
            )
        underlay = self.on_fabric.address.network
        astray = [
            route for route in routes.direct if ipaddress.IPv4Address(route.via) not in underlay
        ]
        routes = replace(
            routes, direct=tuple(route for route in routes.direct if route not in astray)
        )
        self._remove_stale(routes)
        self._set_host_endpoint(routes.host_endpoint)
        for network in routes.by_ipip:
            self.route.set_route(network, index=self._ipip_device(), protocol=_PROTO_BIRD)
        for block in routes.own_blocks:
            self.route.set_route(block, blackhole=True, protocol=routes.own_protocol)
        for direct in routes.direct:
            self.route.set_route(
                direct.cidr, via=direct.via, index=_ETH0_INDEX, protocol=direct.protocol
            )
        if self._tunnel_index is not None:
            self._lay_tunnel(self._tunnel_index, routes)
        self.route.flush()
        self._set_outgoing(routes)
        self.services.set_pools(routes.pools, routes.own_blocks)
        self._routes = routes
        if astray:
            named = ", ".join(f"{route.cidr} via {route.via}" for route in astray)
            raise Refused(
                f"node {self.spec.name} cannot have the route {named}: the next hop is not on the underlay {underlay}"
            )

    def _lay_tunnel(self, tunnel: int, routes: NodeRoutes) -> None:
        """Set the forwarding entries, neighbours and routes for the tunnel device with this
        index."""
        for mac, node, number in {
            (b.tunnel_mac, b.node_address, b.identifier) for b in _having(routes, "forwarding")
        }:
            self.route.set_forwarding(tunnel, mac, node, number)
        for address, mac in {
            (b.tunnel_address, b.tunnel_mac) for b in _having(routes, "neighbour")
        }:
            self.route.set_neighbour(tunnel, address, mac)
        for remote in _having(routes, "route"):
            self.route.set_route(remote.cidr, via=remote.tunnel_address, index=tunnel, onlink=True)

    def _ipip_device(self) -> int:
        """Return the index of ``tunl0``, which a kernel with IPIP has; otherwise that of a device
        that accepts any packet."""
        with namespaces.entered(self.netns), contextlib.suppress(OSError):
            return socket.if_nametoindex(_IPIP)
        index = self.new_index()
        self.route.add_bridge(_IPIP, index=index)
        self.route.flush()
        return index

    def _set_host_endpoint(self, wanted: HostEndpoint | None) -> None:
        """Create or remove the node's own device in its pods' network. The node's traffic to its
        pods is sent from this device."""
        before = self._host_endpoint
        if wanted == (before and before[1]):
            return
        if before is not None:
            self.route.delete_link(before[0], before[1].name)
            self._host_endpoint = None
        if wanted is not None:
            index = self.new_index()
            self.route.add_bridge(wanted.name, index=index)
            self.route.add_address(index, wanted.address, 32)
            self._host_endpoint = (index, wanted)
        self.route.flush()
        for address, index in self._pods.items():
            self._lead_to_pod(address, index)

    def _lead_to_pod(self, address: str, index: int) -> None:
        own = None if self._host_endpoint is None else self._host_endpoint[1].address
        self.route.set_route(f"{address}/32", index=index, source=own)

    def _remove_stale(self, routes: NodeRoutes) -> None:
        before = self._routes
        laid = {
            *routes.own_blocks,
            *(r.cidr for r in _having(routes, "route")),
            *(r.cidr for r in routes.direct),
        }
        laid.update(routes.by_ipip)
        gone = (
            *before.own_blocks,
            *(r.cidr for r in before.remote_blocks),
            *(r.cidr for r in before.direct),
            *before.by_ipip,
        )
        for cidr in gone:
            if cidr not in laid:
                self.route.delete_route(cidr, tolerated=_GONE)
        if self._tunnel_index is None:
            return
        tunnels = {block.tunnel_address for block in _having(routes, "neighbour")}
        for address in {block.tunnel_address for block in before.remote_blocks} - tunnels:
            self.route.delete_neighbour(self._tunnel_index, address, tolerated=_GONE)
        macs = {block.tunnel_mac for block in _having(routes, "forwarding")}
        for mac, node, number in {
            (b.tunnel_mac, b.node_address, b.identifier) for b in before.remote_blocks
        }:
            if mac not in macs:
                self.route.delete_forwarding(self._tunnel_index, mac, node, number, tolerated=_GONE)

    def _set_outgoing(self, routes: NodeRoutes) -> None:
        """Set natOutgoing: a pod's traffic to addresses outside the pools gets the node's
        address.

        On Windows, this is only for TCP and UDP: HNS' outbound NAT leaves ICMP as it is, so no
        echo reply finds its way back.
        """
        pools = ", ".join(routes.pools)
        commands = ["flush chain ip outgoing sources", "flush set ip outgoing pools"]
        if routes.pools:
            commands.append(f"add element ip outgoing pools {{ {pools} }}")
        if routes.pools and routes.nat_outgoing:
            protocols = "meta l4proto { tcp, udp } " if self.spec.os == "windows" else ""
            kept = ", ".join(routes.unmasqueraded)
            near = f"ip daddr != {{ {kept} }} " if kept else ""
            outside = f"ip saddr @pools ip daddr != @pools {near}"
            rule = f"{outside}{protocols}snat to {self.spec.address}"
            commands.append(f"add rule ip outgoing sources {rule}")
        between = assumed.one_of("source-of-pods", SOURCES_BETWEEN_PODS)
        if routes.pools and between and self.spec.os == "windows":
            commands.append(f"add rule ip outgoing sources {between} snat to {self.spec.address}")
        self._nft.run("\n".join(commands))

    def add_pod_route(self, index: int, address: str, mac: str) -> None:
        """Route an address to a pod's host-side interface."""
        if address in self._departed:
            self._forget_departed()
        self._pods[address] = index
        self.route.set_neighbour(index, address, mac)
        self._lead_to_pod(address, index)
        self.route.flush()

    def remove_pod_route(self, index: int, address: str) -> None:
        """Remove an address's route to an interface; the interface may already be gone."""
        if self._pods.get(address) == index:
            del self._pods[address]
        self.route.delete_route(f"{address}/32", index=index, tolerated=_GONE)
        self.route.delete_neighbour(index, address, tolerated=_GONE)
        self.route.flush()
        self._departed.add(address)

    def _forget_departed(self) -> None:
        """Delete tracked connections of removed addresses, so that the next pod with such an
        address does not inherit them.

        Felix does this when a pod is deleted. The kernel then searches the whole machine's table
        (10 ms). Therefore the lab does it only when such an address is used again, for all
        addresses removed since the last time.
        """
        departed = self._departed
        self._departed = set()
        for connection in list(self._conntrack.entries(concerning(departed))):
            ends = (connection.original, connection.reply)
            if any(end.source in departed or end.destination in departed for end in ends):
                self._conntrack.delete(connection)

    def add_endpoint(
        self, endpoint: str, interface: str, address: str, mac: str, *, open_at_first: bool
    ) -> None:
        """Record that the pod's host-side interface exists; a program that arrived earlier takes
        effect now."""
        self._ends[endpoint] = (address, interface, mac)
        self.policy.add_interface(endpoint, interface, open_at_first=open_at_first)

    def remove_endpoint(self, endpoint: str) -> None:
        self._ends.pop(endpoint, None)
        self.policy.remove_interface(endpoint)

    def update_policy(self, update: PolicyUpdate) -> None:
        """Apply an update as one transaction. Another thread then resets at once the connections
        that the update ends."""
        ended = self.policy.update(update)
        if ended:
            self._resets = self._resets or Resets(
                self.netns, both=self.spec.os == "linux" or self.spec.reset == "both"
            )
            self._resets.request(
                [ResetTarget(*self._ends[e], self.policy.generation(e)) for e in ended]
            )

    def set_services(self, table: ServiceTable) -> None:
        self.services.set(table)

    def facts(self) -> dict[str, Any]:
        """Return the kernel's present state."""
        connections = [
            {
                "protocol": c.protocol,
                "original": c.original,
                "reply": c.reply,
                "state": c.state,
                "mark": c.mark,
            }
            for c in self._conntrack.entries()
        ]
        return {
            "links": rtdump.links(self.route),
            "addresses": rtdump.addresses(self.route),
            "routes": rtdump.routes(self.route),
            "neighbours": rtdump.neighbours(self.route),
            "fdb": rtdump.forwarding(self.route),
            "connections": connections,
            "ruleset": self._nft.list_ruleset(),
        }

    def close(self) -> None:
        if self._resets is not None:
            self._resets.close()
        self._nft.close()
        self._conntrack.close()
        self.route.close()
        os.close(self.netns)


def _having(routes: NodeRoutes, entry: Entry) -> list[TunnelRoute]:
    """Return the other nodes' blocks that have an entry of this kind."""
    return [block for block in routes.remote_blocks if entry not in block.lacks]


def _node_mac(address: str) -> str:
    return "02:00:" + ":".join(f"{int(part):02x}" for part in address.split("."))


def _gateway(spec: NodeSpec) -> str:
    """Return the first address of the underlay network that is not the node's own."""
    network = ipaddress.IPv4Interface(f"{spec.address}/{spec.prefix_length}").network
    for host in network.hosts():
        if str(host) != spec.address:
            return str(host)
    raise Refused(f"node {spec.name}: the underlay network {network} has no room for a gateway")
