# SPDX-License-Identifier: Apache-2.0
"""Captured packets as people read them: who sends what to whom, inside VXLAN too; what cannot be read stops nothing."""

from __future__ import annotations

import ipaddress
import struct

from conformance.evidence import packets
from conformance.model.capture import OUTGOING, Capture, Packet


def ipv4(
    source: str, target: str, protocol: int, inside: bytes, *, fragment: int = 0, whole: int = 0
) -> bytes:
    head = struct.pack(
        ">BBHHHBBH", 0x45, 0, whole or 20 + len(inside), 1, fragment, 64, protocol, 0
    )
    return (
        head + ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address(target).packed + inside
    )


def tcp(source: int, target: int, flags: int) -> bytes:
    return struct.pack(">HHIIBBHHH", source, target, 1, 0, 0x50, flags, 8192, 0, 0)


def vxlan(vni: int, inner: bytes) -> bytes:
    return (
        struct.pack(">HHHH", 5000, 4789, 0, 0)
        + struct.pack(">II", 0x08000000, vni << 8)
        + bytes(14)
        + inner
    )


def packet(data: bytes, way: int = 0, at: float = 0.25) -> Packet:
    return Packet(at=at, interface="eth0", way=way, hardware=1, data=data)


def told(*found: Packet, full: bool = False, dropped: int = 0) -> list[str]:
    return packets.text(
        Capture(node="n", packets=found, dropped=dropped, full=full), 4789
    ).splitlines()


def test_a_packet_is_one_line_with_both_ends_ports_flags_and_its_whole_length() -> None:
    cut = ipv4("10.1.0.5", "10.9.0.7", 6, tcp(40000, 80, 0x12), whole=1450)
    assert told(packet(cut, OUTGOING)) == [
        "00:00:00.250000 eth0 out 10.1.0.5 > 10.9.0.7 TCP 40000 > 80 SYN+ACK, 1450 bytes"
    ]


def test_what_vxlan_carries_is_behind_it_with_the_vni() -> None:
    inner = ipv4("10.1.0.5", "10.9.0.7", 6, tcp(40000, 80, 0x04))
    outer = ipv4("192.0.2.1", "192.0.2.2", 17, vxlan(4097, inner))
    assert told(packet(outer)) == [
        "00:00:00.250000 eth0 in  192.0.2.1 > 192.0.2.2 UDP 5000 > 4789 VNI 4097, 90 bytes"
        " | 10.1.0.5 > 10.9.0.7 TCP 40000 > 80 RST, 40 bytes"
    ]


def test_icmp_is_told_by_type_and_a_later_fragment_without_ports() -> None:
    unreachable = ipv4("192.0.2.1", "10.1.0.5", 1, b"\x03\x0d" + bytes(6))
    later = ipv4("10.1.0.5", "10.9.0.7", 17, b"\x01\x02\x03\x04", fragment=185)
    assert [line.partition("in  ")[2] for line in told(packet(unreachable), packet(later))] == [
        "192.0.2.1 > 10.1.0.5 ICMP type 3 code 13, 28 bytes",
        "10.1.0.5 > 10.9.0.7 UDP later fragment, 24 bytes",
    ]


def test_what_is_cut_short_or_no_ipv4_is_told_as_far_as_it_goes() -> None:
    whole = ipv4(
        "192.0.2.1", "192.0.2.2", 17, vxlan(4097, ipv4("10.1.0.5", "10.9.0.7", 6, tcp(1, 2, 2)))
    )
    lines = told(
        *[packet(whole[:size]) for size in range(len(whole) + 1)], packet(b"\x60" + bytes(39))
    )
    assert len(lines) == len(whole) + 2
    assert "no IPv4 packet" in lines[0]
    assert "no IPv4 packet" in lines[-1]


def test_a_capture_says_that_it_saw_nothing_that_it_is_not_whole_and_what_was_dropped() -> None:
    assert told() == ["no packet of these addresses"]
    assert told(full=True, dropped=7)[1:] == [
        "the capture ended early, at the maximum number of packets",
        "the kernel dropped 7 packets of all kinds during the capture",
    ]


def test_the_file_has_each_packet_with_its_time_interface_and_whole_length() -> None:
    data = ipv4("10.1.0.5", "10.9.0.7", 6, tcp(40000, 80, 0x02), whole=60)
    found = packets.pcap(
        Capture(node="n", packets=(packet(data, OUTGOING, at=1.5),), dropped=0, full=False)
    )
    magic, major, minor, _, _, _, link = struct.unpack_from("<IHHiIII", found)
    assert (magic, major, minor, link) == (0xA1B2C3D4, 2, 4, packets.LINUX_SLL2)
    assert struct.unpack_from("<IIII", found, 24) == (1, 500_000, 20 + 40, 20 + 60)
    assert struct.unpack_from(">HHIHBB", found, 40) == (0x0800, 0, 1, 1, OUTGOING, 0)
    assert found[60:] == data
