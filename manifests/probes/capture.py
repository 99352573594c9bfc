# probe-protocol: 2
"""Captures the IPv4 packets between some addresses in the network namespace that it runs in, for some seconds.

Runs in a pod in a node's network under Python 3.8 or later, standard library only; docs/probe-protocol.md, section 10.
It opens a packet socket, for which it needs CAP_NET_RAW, changes nothing, sends nothing and judges nothing.

Usage: capture.py SECONDS PACKETS BYTES VXLAN_PORT ENDS PEERS
ENDS, PEERS: addresses with commas between them, or "-" for none.
"""

import base64
import hashlib
import json
import os
import select
import socket
import struct
import sys
import time

PROTOCOL = 2
MARK = "@@PROBE@@ "
# linux/if_ether.h, if_packet.h, asm-generic/socket.h
ALL, IPV4 = 3, 0x0800
SOL_PACKET, STATISTICS = 263, 6
TIMESTAMP = 29
"""The kernel hands over with each packet when it passed (a struct timeval of the node's clock)."""
ICMP, UDP = 1, 17
BUFFER = 4 << 20


def ip_header(data):
    """(source, destination, protocol, length of the header) of an IPv4 packet, or None."""
    if len(data) < 20 or data[0] >> 4 != 4:
        return None
    return data[12:16], data[16:20], data[9], (data[0] & 15) * 4


def wanted(data, ends, peers, vxlan):
    """Whether a packet goes between an end and an end or peer; one in VXLAN counts by what is inside.

    Without peers: whether it is an end's.  ICMP to an end counts whoever sent it.
    """
    found = ip_header(data)
    if found is None:
        return False
    source, destination, protocol, size = found
    if protocol == UDP and len(data) >= size + 16 and data[size + 2 : size + 4] == struct.pack(">H", vxlan):
        return wanted(data[size + 30 :], ends, peers, vxlan)  # 8 of UDP, 8 of VXLAN, 14 of Ethernet
    if protocol == ICMP and destination in ends:
        return True
    others = ends | peers
    return any(
        one in ends and (not peers or other in others) for one, other in ((source, destination), (destination, source))
    )


def capture(seconds, most, size, vxlan, ends, peers):
    """(packets, how many the kernel dropped, whether there were more than ``most``)."""
    found, full = [], False
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ALL)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        sock.setsockopt(socket.SOL_SOCKET, TIMESTAMP, 1)
        sock.setblocking(False)
        end = time.monotonic() + seconds
        while not full:
            left = end - time.monotonic()
            if left <= 0 or not select.select([sock], [], [], left)[0]:
                break
            try:
                data, more, _, (name, kind, way, hardware, _) = sock.recvmsg(size, 64)
            except OSError:  # an interface that went down
                continue
            if kind != IPV4 or not wanted(data, ends, peers, vxlan):
                continue
            moment, micros = struct.unpack("@ll", more[0][2])
            packet = {"at": moment + micros / 1e6, "interface": name, "way": way, "hardware": hardware}
            packet["data"] = base64.b64encode(data).decode("ascii")
            found.append(packet)
            full = len(found) >= most
        _, dropped = struct.unpack("=II", sock.getsockopt(SOL_PACKET, STATISTICS, 8))
    return found, dropped, full


def addresses(text):
    return {socket.inet_aton(address) for address in text.split(",") if address != "-"}


def main(seconds, most, size, vxlan, ends, peers):
    packets, dropped, full = capture(
        float(seconds), int(most), int(size), int(vxlan), addresses(ends), addresses(peers)
    )
    with open(os.path.abspath(__file__), "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    document = {"type": "capture", "protocol": PROTOCOL, "program": "capture.py", "sha256": digest}
    document.update({"packets": packets, "dropped": dropped, "full": full})
    sys.stdout.write(MARK + json.dumps(document, separators=(",", ":")) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as trouble:
        sys.stderr.write("%s: %s\n" % (type(trouble).__name__, trouble))
        sys.exit(3)
