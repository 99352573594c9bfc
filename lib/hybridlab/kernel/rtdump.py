# SPDX-License-Identifier: Apache-2.0
"""Reads links, addresses, routes, neighbours and forwarding entries from the kernel, for
verification.

The results are plain dictionaries with the keys of ``ip -j`` and ``bridge -j`` where they overlap.
``kernel.rtnetlink`` makes changes.
"""

import socket
import struct
from collections.abc import Iterator
from typing import Any

from hybridlab.kernel.errors import KernelError
from hybridlab.kernel.rtnetlink import NLMSG_ERROR, RouteSocket

_NLMSG_DONE = 3
_NLM_F_DUMP = 0x300 | 0x1
_RTM_GETLINK = 18
_RTM_GETADDR = 22
_RTM_GETROUTE = 26
_RTM_GETNEIGH = 30
_AF_BRIDGE = 7
_IFF_UP = 1
_NESTED = 0x8000
_ROUTE_TYPES = {1: "unicast", 2: "local", 3: "broadcast", 6: "blackhole"}
_RT_TABLE_MAIN = 254
_NUD_PERMANENT = 0x80
_NTF_SELF = 2


def attributes(data: bytes) -> dict[int, bytes]:
    """Return Netlink attributes by kind, without the nested flag. If a kind is repeated, the last
    attribute counts."""
    found: dict[int, bytes] = {}
    offset = 0
    while offset + 4 <= len(data):
        length, kind = struct.unpack_from("HH", data, offset)
        if length < 4:
            break
        found[kind & ~_NESTED] = data[offset + 4 : offset + length]
        offset += length + (-length % 4)
    return found


def dump(sock: socket.socket, kind: int, body: bytes, what: str) -> Iterator[bytes]:
    """Yield the payloads of a netlink dump request; raise KernelError if the kernel refuses it."""
    sock.send(struct.pack("IHHII", 16 + len(body), kind, _NLM_F_DUMP, 0, 0) + body)
    done = False
    while not done:
        data = sock.recv(1 << 16)
        offset = 0
        while offset < len(data):
            length, answer = struct.unpack_from("IH", data, offset)
            if answer == _NLMSG_DONE:
                done = True
            elif answer == NLMSG_ERROR:
                raise KernelError(f"list {what}", -struct.unpack_from("i", data, offset + 16)[0])
            else:
                yield data[offset + 16 : offset + length]
            offset += length + (-length % 4)


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode()


def _mac(value: bytes) -> str:
    return value.hex(":")


def _int(value: bytes) -> int:
    return int.from_bytes(value, "little")


def links(route: RouteSocket) -> list[dict[str, Any]]:
    """Return ifindex, ifname, mtu, address (MAC), up and kind of every link; for VXLAN devices
    also vni, port, local.
    """
    found = []
    for message in dump(route.raw, _RTM_GETLINK, struct.pack("BxHiII", 0, 0, 0, 0, 0), "links"):
        _, _, index, flags, _ = struct.unpack_from("BxHiII", message)
        attrs = attributes(message[16:])
        link: dict[str, Any] = {
            "ifindex": index,
            "ifname": _text(attrs[3]),
            "mtu": _int(attrs.get(4, b"")),
            "address": _mac(attrs.get(1, b"")),
            "up": bool(flags & _IFF_UP),
        }
        info = attributes(attrs.get(18, b""))
        if 1 in info:
            link["kind"] = _text(info[1])
        if link.get("kind") == "vxlan":
            data = attributes(info.get(2, b""))
            link["vni"] = _int(data[1])
            link["port"] = int.from_bytes(data[15], "big")
            if 4 in data:
                link["local"] = socket.inet_ntoa(data[4])
        found.append(link)
    return found


def _names(route: RouteSocket) -> dict[int, str]:
    return {link["ifindex"]: link["ifname"] for link in links(route)}


def addresses(route: RouteSocket) -> list[dict[str, Any]]:
    """Return dev, local and prefixlen of every IPv4 address."""
    names = _names(route)
    found = []
    body = struct.pack("BBBBi", socket.AF_INET, 0, 0, 0, 0)
    for message in dump(route.raw, _RTM_GETADDR, body, "addresses"):
        _, prefix_length, _, _, index = struct.unpack_from("BBBBi", message)
        attrs = attributes(message[8:])
        address = socket.inet_ntoa(attrs.get(2) or attrs[1])
        found.append(
            {"dev": names.get(index, str(index)), "local": address, "prefixlen": prefix_length}
        )
    return found


def routes(route: RouteSocket) -> list[dict[str, Any]]:
    """Return the main table: dst, type, protocol, and gateway, dev and onlink if set."""
    names = _names(route)
    found = []
    body = struct.pack("BBBBBBBBI", socket.AF_INET, 0, 0, 0, 0, 0, 0, 0, 0)
    for message in dump(route.raw, _RTM_GETROUTE, body, "routes"):
        _, length, _, _, table, protocol, _, kind, flags = struct.unpack_from("BBBBBBBBI", message)
        if table != _RT_TABLE_MAIN:
            continue
        attrs = attributes(message[12:])
        destination = socket.inet_ntoa(attrs.get(1, b"\0\0\0\0"))
        entry: dict[str, Any] = {
            "dst": f"{destination}/{length}" if length else "default",
            "type": _ROUTE_TYPES.get(kind, str(kind)),
            "protocol": protocol,
        }
        if 5 in attrs:
            entry["gateway"] = socket.inet_ntoa(attrs[5])
        if 4 in attrs:
            index = _int(attrs[4])
            entry["dev"] = names.get(index, str(index))
        if flags & 4:
            entry["onlink"] = True
        found.append(entry)
    return found


def neighbours(route: RouteSocket) -> list[dict[str, Any]]:
    """Return dst, dev, lladdr and permanent of every IPv4 neighbour."""
    names = _names(route)
    found = []
    body = struct.pack("BxxxiHBB", socket.AF_INET, 0, 0, 0, 0)
    for message in dump(route.raw, _RTM_GETNEIGH, body, "neighbours"):
        _, index, state, _, _ = struct.unpack_from("BxxxiHBB", message)
        attrs = attributes(message[12:])
        if 1 not in attrs or 2 not in attrs:
            continue
        found.append(
            {
                "dst": socket.inet_ntoa(attrs[1]),
                "dev": names.get(index, str(index)),
                "lladdr": _mac(attrs[2]),
                "permanent": bool(state & _NUD_PERMANENT),
            }
        )
    return found


def forwarding(route: RouteSocket) -> list[dict[str, Any]]:
    """Return mac, dev and dst of every VXLAN forwarding entry."""
    names = _names(route)
    found = []
    body = struct.pack("BxxxiHBB", _AF_BRIDGE, 0, 0, 0, 0)
    for message in dump(route.raw, _RTM_GETNEIGH, body, "forwarding entries"):
        _, index, _, flags, _ = struct.unpack_from("BxxxiHBB", message)
        attrs = attributes(message[12:])
        if flags & _NTF_SELF and 1 in attrs and 2 in attrs:
            found.append(
                {
                    "mac": _mac(attrs[2]),
                    "dev": names.get(index, str(index)),
                    "dst": socket.inet_ntoa(attrs[1]),
                }
            )
    return found
