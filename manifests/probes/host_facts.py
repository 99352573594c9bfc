# probe-protocol: 2
"""Says how the network namespace that it runs in is set up: links, IPv4 routes, forwarding entries, neighbours.

Runs in a pod in a node's network under Python 3.8 or later, standard library only; docs/probe-protocol.md, section 9.
It reads netlink dumps, for which no right is needed, changes nothing and judges nothing.
"""

import hashlib
import json
import os
import socket
import struct
import sys

PROTOCOL = 2
MARK = "@@PROBE@@ "
# linux/rtnetlink.h, netlink.h, if_link.h, neighbour.h
GETLINK, GETROUTE, GETNEIGH = 18, 26, 30
REQUEST, DUMP, INTERRUPTED = 0x1, 0x300, 0x10
ERROR, DONE = 2, 3
BRIDGE = 7
RECEIVE = 1 << 20
NESTED = 0x3FFF
UP = 0x1
ONLINK = 0x4
UNUSABLE = 0x20 | 0x40
"""States of neighbours without a usable address: failed, and those that need none (broadcast, loopback)."""


class Interrupted(Exception):
    """The tables changed while they were read."""


def dump(kind, header):
    """Payloads of one dump's messages.  Raises OSError, Interrupted."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        sock.settimeout(10)
        sock.bind((0, 0))
        sock.send(struct.pack("=IHHII", 16 + len(header), kind, REQUEST | DUMP, 1, 0) + header)
        found = []
        while True:
            data = sock.recv(RECEIVE)
            at = 0
            while at < len(data):
                size, what, flags = struct.unpack_from("=IHH", data, at)
                if flags & INTERRUPTED:
                    raise Interrupted()
                if what == DONE:
                    return found
                if what == ERROR:
                    code = -struct.unpack_from("=i", data, at + 16)[0]
                    raise OSError(code, os.strerror(code))
                found.append(data[at + 16 : at + size])
                at += (size + 3) & ~3


def attributes(data):
    """Attribute number to its bytes."""
    found, at = {}, 0
    while at + 4 <= len(data):
        size, kind = struct.unpack_from("=HH", data, at)
        if size < 4:
            break
        found[kind & NESTED] = data[at + 4 : at + size]
        at += (size + 3) & ~3
    return found


def text(data):
    return data.rstrip(b"\0").decode("utf-8", "replace")


def number(data):
    return int.from_bytes(data, sys.byteorder)


def address(data):
    """IPv4 or IPv6 in its usual spelling; empty for nothing."""
    if not data:
        return ""
    return socket.inet_ntop(socket.AF_INET if len(data) == 4 else socket.AF_INET6, data)


def mac(data):
    return ":".join("%02x" % byte for byte in data)


def links():
    """(links for the answer, index to name)."""
    found, names = [], {}
    for message in dump(GETLINK, struct.pack("=BxHiII", socket.AF_UNSPEC, 0, 0, 0, 0)):
        index, flags = struct.unpack_from("=iI", message, 4)
        given = attributes(message[16:])
        names[index] = text(given.get(3, b""))
        info = attributes(given.get(18, b""))
        kind = text(info.get(1, b""))
        link = {
            "index": index,
            "name": names[index],
            "kind": kind,
            "mtu": number(given.get(4, b"")),
            "mac": mac(given.get(1, b"")),
            "up": bool(flags & UP),
            "vxlan": None,
        }
        if kind == "vxlan":
            data = attributes(info.get(2, b""))
            link["vxlan"] = {
                "vni": number(data.get(1, b"")),
                "port": int.from_bytes(data.get(15, b""), "big"),
                "local": address(data.get(4, data.get(17, b""))),
            }
        found.append(link)
    return found, names


def routes(names):
    found = []
    for message in dump(GETROUTE, struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 0, 0, 0, 0, 0)):
        family, length, _, _, table, protocol, scope, kind, flags = struct.unpack_from("=BBBBBBBBI", message)
        if family != socket.AF_INET:
            continue
        given = attributes(message[12:])
        found.append(
            {
                "destination": "%s/%d" % (address(given.get(1, b"\0\0\0\0")), length),
                "gateway": address(given.get(5, b"")),
                "device": names.get(number(given[4]), "") if 4 in given else "",
                "onlink": bool(flags & ONLINK),
                "table": number(given[15]) if 15 in given else table,
                "protocol": protocol,
                "scope": scope,
                "type": kind,
            }
        )
    return found


def entries(family, names):
    """Neighbour table of a family: IPv4 neighbours, or the forwarding entries of bridges and VXLAN devices."""
    for message in dump(GETNEIGH, struct.pack("=BxHiHBB", family, 0, 0, 0, 0, 0)):
        index, state = struct.unpack_from("=iH", message, 4)
        if message[0] == family:
            yield names.get(index, ""), state, attributes(message[12:])


def facts():
    found, names = links()
    fdb = [
        {
            "device": device,
            "mac": mac(given.get(2, b"")),
            "destination": address(given.get(1, b"")),
            "vni": number(given[7]) if 7 in given else None,
            "port": int.from_bytes(given[6], "big") if 6 in given else None,
        }
        for device, _, given in entries(BRIDGE, names)
    ]
    neighbours = [
        {"device": device, "address": address(given.get(1, b"")), "mac": mac(given[2])}
        for device, state, given in entries(socket.AF_INET, names)
        if not state & UNUSABLE and 2 in given
    ]
    return {"links": found, "routes": routes(names), "fdb": fdb, "neighbours": neighbours}


def main():
    for attempt in range(5):
        try:
            found = facts()
            break
        except Interrupted:
            if attempt == 4:
                raise
    with open(os.path.abspath(__file__), "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    document = {"type": "host-facts", "protocol": PROTOCOL, "program": "host_facts.py", "sha256": digest}
    document.update(found)
    sys.stdout.write(MARK + json.dumps(document, separators=(",", ":")) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except Exception as trouble:
        sys.stderr.write("%s: %s\n" % (type(trouble).__name__, trouble))
        sys.exit(3)
