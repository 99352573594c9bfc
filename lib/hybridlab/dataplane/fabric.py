# SPDX-License-Identifier: Apache-2.0
"""The network between the nodes (underlay): a bridge in its own network namespace, with every
node's ``eth0`` as a port.

It switches frames. If nodes are in more than one subnet, or if it has routes to pods, it is also
their router, like the network of a cloud.
"""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass

from hybridlab.dataplane.injection import FABRIC_CHAINS, FABRIC_TABLE, Injections
from hybridlab.dataplane.model import FabricTable
from hybridlab.kernel import namespaces, slow_wire, sysctl
from hybridlab.kernel.nft import Nft
from hybridlab.kernel.rtnetlink import PROTO_BOOT, RouteSocket

SCOPE = "fabric"
"""The underlay's name in places where a node's name is expected."""

_ROUTER_MAC = "02:00:00:ff:ff:fe"
_SOURCES_TABLE = """
table bridge sources {
  chain checked { type filter hook prerouting priority -250; policy accept; }
}
"""
_BRIDGE_INDEX = 2
_FIRST_PORT_INDEX = 10
_FIRST_WIRE_INDEX = 10_000


@dataclass(frozen=True, kw_only=True)
class FabricPort:
    """A node's connection to the underlay."""

    number: int
    address: ipaddress.IPv4Interface
    mac: str
    gateway: str
    """The address of the router for the node."""


class Fabric:
    """The underlay's namespace, bridge and ports.  Every method runs on the programming thread."""

    def __init__(self) -> None:
        self.netns = namespaces.new_netns()
        """A file descriptor that this object owns."""
        self._next_port = 1
        self._known_routes: set[str] = set()
        with namespaces.entered(self.netns):
            sysctl.write("net/ipv6/conf/all/disable_ipv6", 1, optional=True)
            # Where the br_netfilter module is loaded, IPv4 rules would apply to bridged frames too.
            sysctl.write("net/bridge/bridge-nf-call-iptables", 0, optional=True)
            self.route = RouteSocket()
            self._nft = Nft(SCOPE)
            sysctl.write("net/ipv4/ip_forward", 1)
            # The bridge routes packets out of the device by which they came: send no redirects.
            sysctl.write("net/ipv4/conf/all/send_redirects", 0)
            sysctl.write("net/ipv4/conf/default/send_redirects", 0)
            sysctl.write("net/ipv4/conf/all/rp_filter", 0)
            sysctl.write("net/ipv4/conf/default/rp_filter", 0)
        self.route.add_bridge("br0", index=_BRIDGE_INDEX, mac=_ROUTER_MAC)
        self.route.set_route("0.0.0.0/0", blackhole=True, protocol=PROTO_BOOT)
        self.route.flush()
        self._nft.run(FABRIC_TABLE + _SOURCES_TABLE)
        self.injections = Injections(self._nft, FABRIC_CHAINS)

    def plug(self, netns: int, *, mac: str, mtu: int, index: int) -> int:
        """Give a namespace an ``eth0`` (down) with this interface index on the bridge; return the
        port's number."""
        number = self._next_port
        self._next_port += 1
        port = _FIRST_PORT_INDEX + number
        self.route.add_veth(
            f"port{number}",
            mac=f"02:00:00:01:{number >> 8:02x}:{number & 255:02x}",
            mtu=mtu,
            index=port,
            peer="eth0",
            peer_index=index,
            peer_mac=mac,
            peer_netns=netns,
        )
        self.route.set_link(port, master=_BRIDGE_INDEX, what=f"port{number} on br0")
        self.route.flush()
        return number

    def route_to(self, table: FabricTable, nodes: Mapping[str, FabricPort]) -> str | None:
        """Route the table's networks to their nodes, route between the nodes' subnets, and check
        source addresses.

        Return the router's MAC address; None if there is nothing to route.
        """
        routes_nodes = len({port.address.network for port in nodes.values()}) > 1
        for cidr in self._known_routes - {route.cidr for route in table.routes}:
            self.route.delete_route(cidr)
        self._known_routes = {route.cidr for route in table.routes}
        led = {route.node for route in table.routes}
        for port in (port for name, port in nodes.items() if name in led or routes_nodes):
            self.route.add_address(_BRIDGE_INDEX, port.gateway, port.address.network.prefixlen)
            self.route.set_neighbour(_BRIDGE_INDEX, str(port.address.ip), port.mac)
        self.route.flush()
        for route in table.routes:
            self.route.set_route(
                route.cidr, via=str(nodes[route.node].address.ip), index=_BRIDGE_INDEX
            )
        self.route.flush()
        self._check_sources(table, nodes)
        return _ROUTER_MAC if table.routes or routes_nodes else None

    def _check_sources(self, table: FabricTable, nodes: Mapping[str, FabricPort]) -> None:
        commands = ["flush chain bridge sources checked"]
        for name in table.source_check:
            own = [
                str(nodes[name].address.ip),
                *(route.cidr for route in table.routes if route.node == name),
            ]
            port = f'iifname "port{nodes[name].number}"'
            commands.append(
                f"add rule bridge sources checked {port} ether type ip "
                f"ip saddr != {{ {', '.join(own)} }} drop"
            )
        self._nft.run("\n".join(commands))

    def unplug_into_wire(self, number: int, mtu: int) -> tuple[str, str]:
        """Put a wire between a port and the bridge; return the names of the port and of the wire's
        end.

        No packet crosses from the port to the wire's end until the caller carries it.
        """
        bridged = _FIRST_WIRE_INDEX + 2 * number
        end = _FIRST_WIRE_INDEX + 2 * number + 1
        self.route.add_veth(
            f"bridged{number}",
            mac=f"02:00:00:02:{number >> 8:02x}:{number & 255:02x}",
            mtu=mtu,
            index=bridged,
            peer=f"wire{number}",
            peer_index=end,
        )
        self.route.set_link(end, what=f"wire{number}")
        self.route.set_link(bridged, master=_BRIDGE_INDEX, what=f"bridged{number} on br0")
        self.route.set_link(_FIRST_PORT_INDEX + number, master=0, what=f"port{number} off br0")
        self.route.flush()
        with namespaces.entered(self.netns):
            slow_wire.finish_frames(f"bridged{number}", finish=True)
        return f"port{number}", f"wire{number}"

    def plug_again(self, number: int) -> None:
        """Remove the wire and put the port on the bridge."""
        self.route.delete_link(_FIRST_WIRE_INDEX + 2 * number, f"bridged{number}")
        self.route.set_link(
            _FIRST_PORT_INDEX + number, master=_BRIDGE_INDEX, what=f"port{number} on br0"
        )
        self.route.flush()

    def ruleset(self) -> str:
        return self._nft.list_ruleset()

    def close(self) -> None:
        self._nft.close()
        self.route.close()
        os.close(self.netns)
