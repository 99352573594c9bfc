# SPDX-License-Identifier: Apache-2.0
"""Writes and reads TCP segments, and has the two sockets that send them past the network stack of a
node.

A segment that :class:`LinkSocket` sends into an interface passes no netfilter hook; a segment that
:func:`raw_socket` sends is tracked and translated like the connection's own packets. Both sockets
belong to the namespace of the thread that creates them.
"""

import ctypes
import select
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

ACK = 0x10
RST = 0x04

_IPV4 = 0x0800
_TCP = 6
_SO_ATTACH_FILTER = 26
_RECEIVE_BUFFER = 1 << 20
_LONGEST_BARE = 120
"""The longest TCP segment without data, in bytes: both headers with all possible options."""

_NOTHING = ((0x06, 0, 0, 0),)
_BARE_INCOMING_TCP = (
    (0x30, 0, 0, 0xFFFFF004),  # A = packet type
    (0x15, 5, 0, 4),  # outgoing: no
    (0x80, 0, 0, 0),  # A = length
    (0x25, 3, 0, _LONGEST_BARE),  # longer: no
    (0x30, 0, 0, 9),  # A = protocol
    (0x15, 0, 1, _TCP),  # not TCP: no
    (0x06, 0, 0, 0xFFFF),
    (0x06, 0, 0, 0),
)
"""A filter in classic BPF: (code, jump if true, jump if false, operand)."""


@dataclass(frozen=True)
class Segment:
    """The headers of a TCP segment."""

    source: str
    source_port: int
    destination: str
    destination_port: int
    sequence: int
    acknowledged: int
    flags: int


def encode(segment: Segment, data: bytes = b"") -> bytes:
    """Return the IPv4 packet of a segment without options."""
    source = socket.inet_aton(segment.source)
    destination = socket.inet_aton(segment.destination)
    ports = (segment.source_port, segment.destination_port)
    numbers = (segment.sequence & 0xFFFFFFFF, segment.acknowledged & 0xFFFFFFFF)
    tcp = struct.pack("!HHIIBBHHH", *ports, *numbers, 5 << 4, segment.flags, 0, 0, 0) + data
    pseudo = source + destination + struct.pack("!BBH", 0, _TCP, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", _checksum(pseudo + tcp)) + tcp[18:]
    head = (
        struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, _TCP, 0)
        + source
        + destination
    )
    return head[:10] + struct.pack("!H", _checksum(head)) + head[12:] + tcp


def decode(packet: bytes) -> Segment | None:
    """Return the headers of an IPv4 packet; None if it is not the beginning of a whole TCP
    segment."""
    if len(packet) < 40 or packet[9] != _TCP:
        return None
    start = (packet[0] & 15) * 4
    if len(packet) < start + 20:
        return None
    source_port, destination_port, sequence, acknowledged, _, flags = struct.unpack_from(
        "!HHIIBB", packet, start
    )
    source = socket.inet_ntoa(packet[12:16])
    destination = socket.inet_ntoa(packet[16:20])
    return Segment(
        source, source_port, destination, destination_port, sequence, acknowledged, flags
    )


def _checksum(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


class LinkSocket:
    """A socket that sends IPv4 packets into interfaces, and receives packets of interfaces while it
    listens.

    It stays open, since opening and closing a socket takes the kernel 20 to 30 ms. While it does
    not listen, a filter drops all packets.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, socket.htons(_IPV4)
        )
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        self.listen(on=False)

    def listen(self, *, on: bool) -> None:
        """Start or stop receiving TCP segments without data.  Drop packets received earlier."""
        program = _BARE_INCOMING_TCP if on else _NOTHING
        instructions = ctypes.create_string_buffer(
            b"".join(struct.pack("HBBI", *step) for step in program)
        )
        header = struct.pack("HL", len(program), ctypes.addressof(instructions))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, header)
        for _ in self._received():
            pass

    def send(self, interface: str, mac: str, packet: bytes) -> None:
        """Put a packet on an interface. Raise OSError if the interface is gone."""
        self._socket.sendto(packet, (interface, _IPV4, 0, 0, bytes.fromhex(mac.replace(":", ""))))

    def receive(self, seconds: float) -> Iterator[Segment]:
        """Yield the received segments, after waiting at most ``seconds`` for the first."""
        waiting = (
            select.poll()
        )  # not select(): a lab with many connections has descriptors above 1023
        waiting.register(self._socket, select.POLLIN)
        if waiting.poll(seconds * 1000):
            for packet in self._received():
                if (segment := decode(packet)) is not None:
                    yield segment

    def _received(self) -> Iterator[bytes]:
        while True:
            try:
                yield self._socket.recv(256)
            except BlockingIOError:
                return

    def close(self) -> None:
        self._socket.close()


def raw_socket() -> socket.socket:
    """Return a socket that sends whole IPv4 packets from any source address."""
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
