# SPDX-License-Identifier: Apache-2.0
"""Entries of the connection table are told as the kernel wrote them, and those that are not asked for not at all."""

from __future__ import annotations

import socket
import struct

import pytest

from hybridlab.kernel.conntrack import ConntrackSocket, Worth, alive, concerning, datagrams
from hybridlab.kernel.rtnetlink import attribute

TCP, UDP, ICMP = 6, 17, 1
SYN_SENT, ESTABLISHED, TIME_WAIT, CLOSE = 1, 3, 7, 8
NESTED = 0x8000


def tuple_of(source: str, destination: str, protocol: int, ports: tuple[int, int]) -> bytes:
    addresses = attribute(1, socket.inet_aton(source)) + attribute(2, socket.inet_aton(destination))
    numbers = attribute(1, bytes([protocol])) + b"".join(
        attribute(kind, struct.pack("!H", port)) for kind, port in zip((2, 3), ports, strict=True)
    )
    return attribute(1 | NESTED, addresses) + attribute(2 | NESTED, numbers)


def entry(
    client: str, server: str, protocol: int, state: int | None = None, answers_from: int = 80
) -> bytes:
    """As nf_conntrack_netlink writes it, with what it writes beside what is read."""
    body = struct.pack("!BBH", socket.AF_INET, 0, 0)
    body += attribute(1 | NESTED, tuple_of(client, server, protocol, (41000, 80)))
    body += attribute(2 | NESTED, tuple_of(server, client, protocol, (answers_from, 41000)))
    body += attribute(3, struct.pack("!I", 0x18E)) + attribute(7, struct.pack("!I", 117))
    if state is not None:
        told = attribute(1, bytes([state])) + attribute(2, b"\x07") + attribute(3, b"\x07")
        body += attribute(4 | NESTED, attribute(1 | NESTED, told))
    body += (
        attribute(8, struct.pack("!I", 5))
        + attribute(12, struct.pack("!I", 7))
        + attribute(11, b"\0\0\0\1")
    )
    return struct.pack("IHHII", 16 + len(body), 0x100, 2, 0, 0) + body


TABLE = [
    entry("10.0.7.1", "10.0.0.9", TCP, ESTABLISHED),
    entry("10.0.7.2", "10.0.0.9", TCP, TIME_WAIT),
    entry("10.0.7.3", "10.0.0.9", TCP, CLOSE),
    entry("10.0.7.4", "10.0.0.9", UDP, answers_from=8080),
    entry("10.0.7.5", "10.0.0.9", ICMP),
    entry("10.0.7.6", "10.0.0.9", TCP, SYN_SENT),
]
DONE = struct.pack("IHHII", 20, 3, 2, 0, 0) + b"\0" * 4


class Kernel:
    """A netlink socket that always answers the same."""

    def send(self, request: bytes) -> None:
        self.answers = [b"".join(TABLE[:2]), b"".join(TABLE[2:]), DONE]

    def recv(self, size: int) -> bytes:
        return self.answers.pop(0)


@pytest.fixture
def table() -> ConntrackSocket:
    made = ConntrackSocket.__new__(ConntrackSocket)
    made._socket = Kernel()  # type: ignore[assignment]
    return made


def test_every_tcp_and_udp_connection_is_told(table: ConntrackSocket) -> None:
    assert [
        (tracked.protocol, tracked.original.source, tracked.state, tracked.mark)
        for tracked in table.entries()
    ] == [
        ("tcp", "10.0.7.1", "ESTABLISHED", 5),
        ("tcp", "10.0.7.2", "TIME_WAIT", 5),
        ("tcp", "10.0.7.3", "CLOSE", 5),
        ("udp", "10.0.7.4", "", 5),
        ("tcp", "10.0.7.6", "SYN_SENT", 5),
    ]


@pytest.mark.parametrize(
    ("worth", "told"),
    [
        (alive, ["10.0.7.1", "10.0.7.3"]),
        (datagrams(["10.0.0.9"], []), ["10.0.7.4"]),
        (datagrams(["10.0.0.8"], [80]), ["10.0.7.4"]),
        (datagrams(["10.0.0.8"], [81, 8080]), []),
        (concerning(["10.0.7.2", "10.0.7.4"]), ["10.0.7.2", "10.0.7.4"]),
        (concerning([]), []),
    ],
    ids=[
        "alive",
        "datagrams to an address",
        "to a port",
        "to neither",
        "concerning two",
        "concerning none",
    ],
)
def test_only_those_that_are_worth_it_are_decoded(
    table: ConntrackSocket, worth: Worth, told: list[str]
) -> None:
    assert [tracked.original.source for tracked in table.entries(worth)] == told
