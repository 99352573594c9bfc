# SPDX-License-Identifier: Apache-2.0
"""Links, addresses, routes, neighbours and forwarding entries by raw rtnetlink: 1 to 2 ms for a
whole pod.

A :class:`RouteSocket` belongs to the network namespace of the thread that creates it and can be
used from any namespace later. Changes are queued and sent in a single datagram by
:meth:`RouteSocket.flush`, which raises for the first change that the kernel refused. Only the
functions that the lab needs are here, only for IPv4; ``kernel.rtdump`` reads.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from hybridlab.kernel.errors import KernelError

_T = TypeVar("_T")

NLMSG_ERROR = 2
NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_REPLACE = 0x100
NLM_F_EXCL = 0x200
NLM_F_CREATE = 0x400
_NLM_F_ACK_TLVS = 0x200
_NLM_F_CAPPED = 0x100

RTM_NEWLINK = 16
RTM_DELLINK = 17
RTM_NEWADDR = 20
RTM_DELADDR = 21
RTM_NEWROUTE = 24
RTM_DELROUTE = 25
RTM_NEWNEIGH = 28
RTM_DELNEIGH = 29

_SOL_NETLINK = 270
_NETLINK_CAP_ACK = 10
_NETLINK_EXT_ACK = 11
_AF_BRIDGE = 7
_NDA_VNI = 7
_IFF_UP = 1

_IFLA_ADDRESS = 1
_IFLA_IFNAME = 3
_IFLA_MTU = 4
_IFLA_MASTER = 10
_IFLA_LINKINFO = 18
_IFLA_NET_NS_FD = 28
_IFLA_INFO_KIND = 1
_IFLA_INFO_DATA = 2
_VETH_INFO_PEER = 1
_VXLAN_ID = 1
_VXLAN_LINK = 3
_VXLAN_LOCAL = 4
_VXLAN_LEARNING = 7
_VXLAN_PORT = 15
_VXLAN_UDP_CSUM = 18

_RTN_UNICAST = 1
_RTN_BLACKHOLE = 6
_RTA_PREFSRC = 7
_RT_TABLE_MAIN = 254
_RT_SCOPE_UNIVERSE = 0
_RT_SCOPE_LINK = 253
_RTNH_F_ONLINK = 4
PROTO_BOOT = 3
PROTO_CALICO = 80
"""The origins of routes, as ``ip route`` shows them. Felix marks its routes with 80."""

_NUD_PERMANENT = 0x80
_NTF_SELF = 2

_PER_DATAGRAM = 40
LO_INDEX = 1
"""The loopback device is the first of every namespace."""


def attribute(kind: int, payload: bytes = b"") -> bytes:
    """Return one netlink attribute, padded."""
    length = 4 + len(payload)
    return struct.pack("HH", length, kind) + payload + b"\0" * (-length % 4)


def _optional(kind: int, value: _T | None, packed: Callable[[_T], bytes]) -> bytes:
    """Return the attribute of a value; return no bytes if the value is None."""
    return b"" if value is None else attribute(kind, packed(value))


def _u32(value: int) -> bytes:
    return struct.pack("I", value)


def _mac(value: str) -> bytes:
    return bytes.fromhex(value.replace(":", ""))


def _name(value: str) -> bytes:
    return value.encode() + b"\0"


def _network(value: str) -> tuple[bytes, int]:
    network = ipaddress.IPv4Network(value)
    return network.network_address.packed, network.prefixlen


class RouteSocket:
    """A rtnetlink socket with a queue of changes; a context manager that closes it.

    Not safe for two threads at once. Every change has a description, which the error contains.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._socket.setsockopt(_SOL_NETLINK, _NETLINK_EXT_ACK, 1)
        self._socket.setsockopt(_SOL_NETLINK, _NETLINK_CAP_ACK, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._sequence = 0
        self._queue: list[tuple[int, str, frozenset[int], bytes]] = []

    def __enter__(self) -> RouteSocket:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def raw(self) -> socket.socket:
        """Return the socket itself, for reading dumps; empty the queue first."""
        return self._socket

    def close(self) -> None:
        """Close the socket; queued changes are dropped."""
        self._socket.close()

    def flush(self) -> None:
        """Send the queued changes and wait for the kernel's answers.

        Raise KernelError for the first refused change; the kernel still tries later changes of the
        same datagram.
        """
        while self._queue:
            batch = self._queue[:_PER_DATAGRAM]
            self._queue = self._queue[_PER_DATAGRAM:]
            self._socket.send(b"".join(message for *_, message in batch))
            pending = {sequence: (what, tolerated) for sequence, what, tolerated, _ in batch}
            refused: KernelError | None = None
            while pending:
                refused = self._read_acks(pending, refused)
            if refused is not None:
                self._queue.clear()
                raise refused

    def _read_acks(
        self, pending: dict[int, tuple[str, frozenset[int]]], refused: KernelError | None
    ) -> KernelError | None:
        data = self._socket.recv(1 << 16)
        offset = 0
        while offset < len(data):
            length, kind, flags, sequence, _ = struct.unpack_from("IHHII", data, offset)
            if kind == NLMSG_ERROR and sequence in pending:
                what, tolerated = pending.pop(sequence)
                number = -struct.unpack_from("i", data, offset + 16)[0]
                if number and number not in tolerated and refused is None:
                    words = _ack_words(data[offset : offset + length], flags)
                    refused = KernelError(what, number, words)
            offset += length + (-length % 4)
        return refused

    def _add(
        self,
        kind: int,
        body: bytes,
        flags: int,
        what: str,
        *,
        tolerated: frozenset[int] = frozenset(),
    ) -> None:
        self._sequence += 1
        header = struct.pack(
            "IHHII", 16 + len(body), kind, NLM_F_REQUEST | NLM_F_ACK | flags, self._sequence, 0
        )
        self._queue.append((self._sequence, what, tolerated, header + body))

    def add_veth(
        self,
        name: str,
        *,
        mac: str,
        mtu: int,
        index: int,
        peer: str,
        peer_index: int,
        peer_mac: str | None = None,
        peer_netns: int | None = None,
    ) -> None:
        """Queue a veth pair: this end up; the peer down, in ``peer_netns`` (a descriptor) if
        given.

        The caller chooses the interface indexes, so that nothing has to be looked up afterwards.
        """
        other = (
            _link_header(peer_index)
            + attribute(_IFLA_IFNAME, _name(peer))
            + attribute(_IFLA_MTU, _u32(mtu))
            + _optional(_IFLA_ADDRESS, peer_mac, _mac)
            + _optional(_IFLA_NET_NS_FD, peer_netns, _u32)
        )
        body = (
            _link_header(index, up=True)
            + attribute(_IFLA_IFNAME, _name(name))
            + attribute(_IFLA_ADDRESS, _mac(mac))
            + attribute(_IFLA_MTU, _u32(mtu))
            + _link_info("veth", attribute(_VETH_INFO_PEER, other))
        )
        self._add(RTM_NEWLINK, body, NLM_F_CREATE | NLM_F_EXCL, f"add veth {name}")

    def add_bridge(self, name: str, *, index: int, mac: str | None = None) -> None:
        """Queue a bridge, up. A bridge without ports is also used as a device for an address, since
        kernels may lack the device type ``dummy``.
        """
        body = (
            _link_header(index, up=True)
            + attribute(_IFLA_IFNAME, _name(name))
            + _link_info("bridge")
            + _optional(_IFLA_ADDRESS, mac, _mac)
        )
        self._add(RTM_NEWLINK, body, NLM_F_CREATE | NLM_F_EXCL, f"add bridge {name}")

    def add_tunnel(
        self,
        name: str,
        *,
        index: int,
        identifier: int,
        port: int,
        mtu: int,
        mac: str,
        local: str | None = None,
        device: int | None = None,
    ) -> None:
        """Queue a VXLAN device, up, with static forwarding entries and without learning;
        ``identifier``: its VNI.
        """
        data = (
            attribute(_VXLAN_ID, _u32(identifier))
            + attribute(_VXLAN_LEARNING, b"\0")
            + attribute(_VXLAN_PORT, struct.pack("!H", port))
            + attribute(_VXLAN_UDP_CSUM, b"\0")
            + _optional(_VXLAN_LOCAL, local, socket.inet_aton)
            + _optional(_VXLAN_LINK, device, _u32)
        )
        body = (
            _link_header(index, up=True)
            + attribute(_IFLA_IFNAME, _name(name))
            + attribute(_IFLA_ADDRESS, _mac(mac))
            + attribute(_IFLA_MTU, _u32(mtu))
            + _link_info("vxlan", data)
        )
        self._add(
            RTM_NEWLINK, body, NLM_F_CREATE | NLM_F_EXCL, f"add vxlan {name} with VNI {identifier}"
        )

    def set_link(
        self, index: int, *, up: bool = True, master: int | None = None, what: str = ""
    ) -> None:
        """Queue a change of a link: up or down, and into the bridge ``master``."""
        header = _link_header(index, up=up, change=True)
        body = header + _optional(_IFLA_MASTER, master, _u32)
        self._add(RTM_NEWLINK, body, 0, f"set link {what or index} {'up' if up else 'down'}")

    def delete_link(self, index: int, what: str) -> None:
        """Delete a link and wait for the kernel to finish: about 20 ms.  Closing its namespace is faster."""
        self._add(RTM_DELLINK, _link_header(index), 0, f"delete link {what}")

    def delete_link_named(self, name: str, *, tolerated: frozenset[int] = frozenset()) -> None:
        """Delete a link as :meth:`delete_link` does, by name if its index is not known."""
        body = _link_header(0) + attribute(_IFLA_IFNAME, _name(name))
        self._add(RTM_DELLINK, body, 0, f"delete link {name}", tolerated=tolerated)

    def add_address(self, index: int, address: str, prefix_length: int) -> None:
        """Add an IPv4 address; it is no error if the device already has the address."""
        self._add(
            RTM_NEWADDR,
            _address(index, address, prefix_length),
            NLM_F_CREATE | NLM_F_REPLACE,
            f"add address {address}/{prefix_length}",
        )

    def delete_address(self, index: int, address: str, prefix_length: int) -> None:
        body = _address(index, address, prefix_length)
        self._add(RTM_DELADDR, body, 0, f"delete address {address}/{prefix_length}")

    def set_neighbour(self, index: int, address: str, mac: str) -> None:
        """Queue a permanent ARP entry, new or in place of an existing entry."""
        self._add(
            RTM_NEWNEIGH,
            _neighbour(index, address, mac),
            NLM_F_CREATE | NLM_F_REPLACE,
            f"set neighbour {address} at {mac}",
        )

    def delete_neighbour(
        self, index: int, address: str, *, tolerated: frozenset[int] = frozenset()
    ) -> None:
        self._add(
            RTM_DELNEIGH,
            _neighbour(index, address),
            0,
            f"delete neighbour {address}",
            tolerated=tolerated,
        )

    def set_forwarding(
        self, index: int, mac: str, destination: str, identifier: int | None = None
    ) -> None:
        """Queue a static VXLAN forwarding entry: frames to ``mac`` go to the VTEP at
        ``destination``. They carry this ``identifier`` as VNI, or else the device's VNI."""
        self._add(
            RTM_NEWNEIGH,
            _forwarding(index, mac, destination, identifier),
            NLM_F_CREATE | NLM_F_REPLACE,
            f"set forwarding entry {mac} to {destination}",
        )

    def delete_forwarding(
        self,
        index: int,
        mac: str,
        destination: str,
        identifier: int | None = None,
        *,
        tolerated: frozenset[int] = frozenset(),
    ) -> None:
        """Remove a VXLAN forwarding entry; ``identifier`` is the value with which it was set."""
        body = _forwarding(index, mac, destination, identifier)
        what = f"delete forwarding entry {mac} to {destination}"
        self._add(RTM_DELNEIGH, body, 0, what, tolerated=tolerated)

    def set_route(
        self,
        network: str,
        *,
        index: int | None = None,
        via: str | None = None,
        onlink: bool = False,
        blackhole: bool = False,
        protocol: int = PROTO_CALICO,
        source: str | None = None,
    ) -> None:
        """Queue a route of the main table, new or in place of the route to the same network.

        ``source``: the source address of the machine's own packets there.
        """
        body = _route(network, index, via, onlink=onlink, blackhole=blackhole, protocol=protocol)
        body += _optional(_RTA_PREFSRC, source, socket.inet_aton)
        self._add(RTM_NEWROUTE, body, NLM_F_CREATE | NLM_F_REPLACE, f"set route {network}")

    def delete_route(
        self, network: str, *, index: int | None = None, tolerated: frozenset[int] = frozenset()
    ) -> None:
        """Remove the route to a network, of any kind, from the main table."""
        packed, length = _network(network)
        body = struct.pack("BBBBBBBBI", socket.AF_INET, length, 0, 0, _RT_TABLE_MAIN, 0, 255, 0, 0)
        body += attribute(1, packed) + _optional(4, index, _u32)
        self._add(RTM_DELROUTE, body, 0, f"delete route {network}", tolerated=tolerated)


def _ack_words(message: bytes, flags: int) -> str:
    """Return the kernel's extended explanation; return an empty string if there is none."""
    if not flags & _NLM_F_ACK_TLVS:
        return ""
    offset = 16 + 4 + 16
    if not flags & _NLM_F_CAPPED:
        echoed = struct.unpack_from("I", message, 20)[0]
        offset += echoed - 16 + (-echoed % 4)
    while offset + 4 <= len(message):
        length, kind = struct.unpack_from("HH", message, offset)
        if kind == 1:
            words = message[offset + 4 : offset + length].rstrip(b"\0").decode(errors="replace")
            return f"{words} [{os.strerror(-struct.unpack_from('i', message, 16)[0])}]"
        offset += max(4, length + (-length % 4))
    return ""


def _link_header(index: int, *, up: bool = False, change: bool = False) -> bytes:
    flags = _IFF_UP if up else 0
    return struct.pack("BxHiII", 0, 0, index, flags, _IFF_UP if up or change else 0)


def _link_info(kind: str, data: bytes = b"") -> bytes:
    info = attribute(_IFLA_INFO_KIND, kind.encode())
    if data:
        info += attribute(_IFLA_INFO_DATA, data)
    return attribute(_IFLA_LINKINFO, info)


def _address(index: int, address: str, prefix_length: int) -> bytes:
    packed = socket.inet_aton(address)
    header = struct.pack("BBBBi", socket.AF_INET, prefix_length, 0, 0, index)
    return header + attribute(2, packed) + attribute(1, packed)


def _neighbour(index: int, address: str, mac: str | None = None) -> bytes:
    header = struct.pack("BxxxiHBB", socket.AF_INET, index, _NUD_PERMANENT, 0, 0)
    return header + attribute(1, socket.inet_aton(address)) + _optional(2, mac, _mac)


def _forwarding(index: int, mac: str, destination: str, vni: int | None) -> bytes:
    header = struct.pack("BxxxiHBB", _AF_BRIDGE, index, _NUD_PERMANENT, _NTF_SELF, 0)
    body = header + attribute(2, _mac(mac)) + attribute(1, socket.inet_aton(destination))
    return body if vni is None else body + attribute(_NDA_VNI, _u32(vni))


def _route(
    network: str,
    index: int | None,
    via: str | None,
    *,
    onlink: bool,
    blackhole: bool,
    protocol: int,
) -> bytes:
    packed, length = _network(network)
    kind = _RTN_BLACKHOLE if blackhole else _RTN_UNICAST
    scope = _RT_SCOPE_UNIVERSE if via or blackhole else _RT_SCOPE_LINK
    flags = _RTNH_F_ONLINK if onlink else 0
    body = struct.pack(
        "BBBBBBBBI", socket.AF_INET, length, 0, 0, _RT_TABLE_MAIN, protocol, scope, kind, flags
    )
    return (
        body
        + _optional(1, packed if length else None, bytes)
        + _optional(5, via or None, socket.inet_aton)
        + _optional(4, index, _u32)
    )
