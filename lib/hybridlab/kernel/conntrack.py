# SPDX-License-Identifier: Apache-2.0
"""The connection table of a network namespace by ctnetlink: list it, and delete single entries.

A :class:`ConntrackSocket` belongs to the namespace of the thread that creates it. Only IPv4 TCP and
UDP entries are returned. By default, the kernel lists an ended connection for two minutes more, so
most entries of a busy node are of ended connections. Decoding all entries takes longer than all
other work with them. A caller that recognises irrelevant entries by their bytes need not decode
them (``worth``).
"""

import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hybridlab.kernel.errors import KernelError
from hybridlab.kernel.rtdump import attributes, dump
from hybridlab.kernel.rtnetlink import NLM_F_ACK, NLM_F_REQUEST, NLMSG_ERROR, attribute

_NETLINK_NETFILTER = 12
_CT_GET = 0x101
_CT_DELETE = 0x102
_TUPLE_ORIGINAL = 1
_TUPLE_REPLY = 2
_PROTOINFO = 4
_MARK = 8
_NESTED = 0x8000
_PROTOCOLS = {6: "tcp", 17: "udp"}
_TCP_STATES = (
    "NONE",
    "SYN_SENT",
    "SYN_RECV",
    "ESTABLISHED",
    "FIN_WAIT",
    "CLOSE_WAIT",
    "LAST_ACK",
    "TIME_WAIT",
    "CLOSE",
    "SYN_SENT2",
)
_ENOENT = 2
_TCP_STATE = 1
_PROTOCOL = 1
_PORT = 3
"""Numbers of attributes. In CTA_PROTOINFO_TCP, _TCP_STATE has 1 byte. In CTA_TUPLE_PROTO, _PROTOCOL
has 1 byte, and _PORT, the destination's port, has 2."""
_UNANSWERED, _OVER = (
    struct.pack("HHB", 5, _TCP_STATE, _TCP_STATES.index(s)) for s in ("SYN_SENT", "TIME_WAIT")
)
_UDP = struct.pack("HHB", 5, _PROTOCOL, socket.IPPROTO_UDP)

Worth = Callable[[bytes], bool]
"""Returns whether an entry is worth decoding, by the bytes that the kernel wrote; it may return
True for irrelevant entries."""


@dataclass(frozen=True)
class Tuple:
    """A direction of a connection."""

    source: str
    destination: str
    source_port: int
    destination_port: int


@dataclass(frozen=True)
class Connection:
    """A tracked connection; ``reply`` has the addresses after NAT."""

    protocol: str
    original: Tuple
    reply: Tuple
    state: str
    """The state of TCP; empty for UDP."""
    mark: int
    key: bytes
    """The original tuple as the kernel wrote it, for deleting."""


class ConntrackSocket:
    """Reads and deletes entries of a namespace; not safe for two threads at once."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
        self._socket.bind((0, 0))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)

    def entries(self, worth: Worth = lambda _: True) -> Iterator[Connection]:
        """Yield every TCP and UDP connection for which ``worth`` returns True; read all of them
        before any other call.

        This takes 10 ms even if there are no connections.
        """
        body = struct.pack("!BBH", socket.AF_INET, 0, 0)
        for message in dump(self._socket, _CT_GET, body, "connections"):
            if not worth(message):
                continue
            attrs = attributes(message[4:])
            original = _tuple(attrs[_TUPLE_ORIGINAL])
            reply = _tuple(attrs[_TUPLE_REPLY])
            if original is None or reply is None:
                continue
            protocol, there = original
            state = attributes(attributes(attrs.get(_PROTOINFO, b"")).get(1, b"")).get(1, b"\0")[0]
            yield Connection(
                protocol=protocol,
                original=there,
                reply=reply[1],
                state=_TCP_STATES[state] if protocol == "tcp" and state < len(_TCP_STATES) else "",
                mark=int.from_bytes(attrs.get(_MARK, b""), "big"),
                key=attrs[_TUPLE_ORIGINAL],
            )

    def delete(self, connection: Connection) -> None:
        """Delete the entry of a connection; it is no error if the connection ended meanwhile."""
        body = struct.pack("!BBH", socket.AF_INET, 0, 0) + attribute(
            _TUPLE_ORIGINAL | _NESTED, connection.key
        )
        flags = NLM_F_REQUEST | NLM_F_ACK
        self._socket.send(struct.pack("IHHII", 16 + len(body), _CT_DELETE, flags, 1, 0) + body)
        data = self._socket.recv(1 << 16)
        if struct.unpack_from("IH", data)[1] == NLMSG_ERROR:
            number = -struct.unpack_from("i", data, 16)[0]
            if number not in (0, _ENOENT):
                raise KernelError(f"delete connection {connection.original}", number)

    def close(self) -> None:
        self._socket.close()


def alive(message: bytes) -> bool:
    """Return whether an entry is a TCP connection that was answered (not SYN_SENT) and is not only
    waiting for late packets (not TIME_WAIT).
    """
    return _OVER not in message and _UNANSWERED not in message and _UDP not in message


def concerning(addresses: Iterable[str]) -> Worth:
    """Return a filter for entries with any of these addresses."""
    packed = [socket.inet_aton(address) for address in addresses]
    return lambda message: any(address in message for address in packed)


def datagrams(addresses: Iterable[str], ports: Iterable[int]) -> Worth:
    """Return a filter for UDP entries with any of these addresses, or to any of these ports."""
    packed = [socket.inet_aton(address) for address in addresses]
    packed += [struct.pack("HH", 6, _PORT) + port.to_bytes(2, "big") for port in ports]
    return lambda message: _UDP in message and any(address in message for address in packed)


def _tuple(data: bytes) -> tuple[str, Tuple] | None:
    parts = attributes(data)
    address = attributes(parts[1])
    ports = attributes(parts[2])
    protocol = _PROTOCOLS.get(ports[1][0])
    if protocol is None:
        return None
    return protocol, Tuple(
        socket.inet_ntoa(address[1]),
        socket.inet_ntoa(address[2]),
        int.from_bytes(ports[2], "big"),
        int.from_bytes(ports[3], "big"),
    )
