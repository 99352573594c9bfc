"""The underlay: one bridge in a network namespace of its own, to which every node's ``eth0`` is plugged.

It switches frames and nothing else; its nft table holds faults only.
"""

from __future__ import annotations

import os

from hybridlab.dataplane.injection import FABRIC_CHAINS, FABRIC_TABLE, Injections
from hybridlab.kernel import namespaces, slow_wire, sysctl
from hybridlab.kernel.nft import Nft
from hybridlab.kernel.rtnetlink import RouteSocket

SCOPE = "fabric"
"""How the underlay is called where a node's name is expected."""

_BRIDGE_INDEX = 2
_FIRST_PORT_INDEX = 10
_FIRST_WIRE_INDEX = 10_000


class Fabric:
    """The underlay's namespace, bridge and ports.  Every method runs on the programming thread."""

    def __init__(self) -> None:
        self.netns = namespaces.new_netns()
        """Descriptor, owned here."""
        self._next_port = 1
        with namespaces.entered(self.netns):
            sysctl.write("net/ipv6/conf/all/disable_ipv6", 1, optional=True)
            # Where the br_netfilter module is loaded, IPv4 rules would see bridged frames too.
            sysctl.write("net/bridge/bridge-nf-call-iptables", 0, optional=True)
            self.route = RouteSocket()
            self._nft = Nft(SCOPE)
        self.route.add_bridge("br0", index=_BRIDGE_INDEX)
        self.route.flush()
        self._nft.run(FABRIC_TABLE)
        self.injections = Injections(self._nft, FABRIC_CHAINS)

    def plug(self, netns: int, *, mac: str, mtu: int, index: int) -> int:
        """Give a namespace an ``eth0`` (down) with this interface index on the bridge; returns the port's number."""
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

    def unplug_into_wire(self, number: int, mtu: int) -> tuple[str, str]:
        """Put a wire between a port and the bridge, which carries nothing by itself; its ends' names."""
        bridged, end = _FIRST_WIRE_INDEX + 2 * number, _FIRST_WIRE_INDEX + 2 * number + 1
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
        """Take the wire away and put the port on the bridge."""
        self.route.delete_link(_FIRST_WIRE_INDEX + 2 * number, f"bridged{number}")
        self.route.set_link(_FIRST_PORT_INDEX + number, master=_BRIDGE_INDEX, what=f"port{number} on br0")
        self.route.flush()

    def ruleset(self) -> str:
        """The nft rules of the underlay as text."""
        return self._nft.list_ruleset()

    def close(self) -> None:
        """Let go; the kernel takes the rest away."""
        self._nft.close()
        self.route.close()
        os.close(self.netns)
