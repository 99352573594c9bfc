# SPDX-License-Identifier: Apache-2.0
"""Writes captured packets as text for people, one line for each packet, and as a pcap file for
Wireshark and tcpdump."""

import datetime
import ipaddress
import struct
from collections.abc import Iterator

from conformance.model.capture import OUTGOING, Capture, Packet

LINUX_SLL2 = 276
"""Link type of the file: packets of all interfaces, without their link headers
(tcpdump.org/linktypes.html)."""
IPV4 = 0x0800
PROTOCOLS = {1: "ICMP", 6: "TCP", 17: "UDP", 132: "SCTP"}
FLAGS = ((0x02, "SYN"), (0x10, "ACK"), (0x04, "RST"), (0x01, "FIN"), (0x08, "PSH"))


def pcap(capture: Capture) -> bytes:
    """Return the pcap file. The file numbers interfaces in the order of their names."""
    numbers = {
        name: number
        for number, name in enumerate(
            sorted({packet.interface for packet in capture.packets}), start=1
        )
    }
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, LINUX_SLL2)]
    for packet in capture.packets:
        head = struct.pack(
            ">HHIHBB8x", IPV4, 0, numbers[packet.interface], packet.hardware, packet.way, 0
        )
        whole = struct.unpack_from(">H", packet.data, 2)[0] if len(packet.data) >= 4 else 0
        seconds, micros = divmod(round(packet.at * 1_000_000), 1_000_000)
        kept = len(head) + len(packet.data)
        length = len(head) + max(whole, len(packet.data))
        parts.append(struct.pack("<IIII", seconds, micros, kept, length) + head + packet.data)
    return b"".join(parts)


def text(capture: Capture, vxlan_port: int) -> str:
    """Return a line for each packet, oldest first. A packet inside VXLAN follows the packet that
    carries it."""
    lines = [_line(packet, vxlan_port) for packet in capture.packets]
    lines = lines or ["no packet of these addresses"]
    if capture.full:
        lines.append("the capture ended early, at the maximum number of packets")
    if capture.dropped:
        lines.append(
            f"the kernel dropped {capture.dropped} packets of all kinds during the capture"
        )
    return "\n".join(lines)


def _line(packet: Packet, vxlan_port: int) -> str:
    at = datetime.datetime.fromtimestamp(packet.at, datetime.UTC)
    direction = "out" if packet.way == OUTGOING else "in "
    headers = " | ".join(_headers(packet.data, vxlan_port))
    return f"{at:%H:%M:%S.%f} {packet.interface} {direction} {headers}"


def _headers(data: bytes, vxlan_port: int) -> Iterator[str]:
    """Yield ``10.1.0.5 > 10.9.0.7 TCP 41234 > 80 SYN, 60 bytes``; then the same for the packet that
    VXLAN carries."""
    if len(data) < 20 or data[0] >> 4 != 4:
        yield f"no IPv4 packet: {data[:24].hex()}"
        return
    size = (data[0] & 15) * 4
    source = ipaddress.IPv4Address(data[12:16])
    target = ipaddress.IPv4Address(data[16:20])
    length, fragment = struct.unpack_from(">H2xH", data, 2)
    protocol = data[9]
    inside = data[size:]
    words = [f"{source} > {target}", PROTOCOLS.get(protocol, f"protocol {protocol}")]
    if fragment & 0x1FFF:
        yield " ".join([*words, f"later fragment, {length} bytes"])
        return
    ports = _ports(protocol, inside)
    carries = protocol == 17 and ports[1:] == (vxlan_port,) and len(inside) >= 16
    words += [f"{ports[0]} > {ports[1]}"] if ports else []
    words += _details(protocol, inside)
    words += [f"VNI {int.from_bytes(inside[12:15], 'big')}"] if carries else []
    yield f"{' '.join(words)}, {length} bytes"
    if carries:
        yield from _headers(inside[30:], vxlan_port)


def _ports(protocol: int, inside: bytes) -> tuple[int, ...]:
    """Return the ports of source and target. Return no ports if the protocol has none, or if the
    packet ends before its ports."""
    has_ports = protocol in {6, 17, 132} and len(inside) >= 4
    return struct.unpack_from(">HH", inside) if has_ports else ()


def _details(protocol: int, inside: bytes) -> list[str]:
    """Describe the flags of TCP, or the type and code of ICMP."""
    if protocol == 6 and len(inside) >= 14:
        return ["+".join(name for flag, name in FLAGS if inside[13] & flag) or "no flags"]
    if protocol == 1 and len(inside) >= 2:
        return [f"type {inside[0]} code {inside[1]}"]
    return []
