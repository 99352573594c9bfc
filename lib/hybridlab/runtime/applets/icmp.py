# SPDX-License-Identifier: Apache-2.0
"""ICMP echo from a pod, for the ping commands of both systems."""

import asyncio
import itertools
import os
import socket
import struct
import time
from dataclasses import dataclass

from hybridlab.runtime.applet import Net

_ECHO_REPLY = 0
_UNREACHABLE = 3
_ECHO_REQUEST = 8
_TIME_EXCEEDED = 11
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Echo:
    """The result of an ICMP echo request."""

    kind: str
    """``reply``, ``timeout``, ``unreachable`` (by ICMP) or ``unsendable`` (no route)."""
    source: str = ""
    ttl: int = 0
    milliseconds: float = 0.0
    code: int = 0


def new_identity() -> int:
    """Return the identifier for a ping command's requests.

    No two consecutive commands share an identifier: a node's connection tracking would count the
    later requests as part of the earlier flow, and translate them in the same way.
    """
    return next(_NUMBERS) & 0xFFFF


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


async def echo(
    net: Net, address: str, sequence: int, *, size: int, limit: float, identity: int
) -> Echo:
    """Send an echo request with ``size`` data bytes and wait ``limit`` seconds for the reply."""
    payload = os.urandom(8).ljust(size, b"\0")[:size]
    payload += b"\0" * (len(payload) % 2)
    head = struct.pack("!BBHHH", _ECHO_REQUEST, 0, 0, identity, sequence)
    head = struct.pack("!BBHHH", _ECHO_REQUEST, 0, _checksum(head + payload), identity, sequence)
    loop = asyncio.get_running_loop()
    with net.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
        try:
            sock.sendto(head + payload, (address, 0))
        except OSError:
            return Echo("unsendable")
        start = time.perf_counter()
        try:
            async with asyncio.timeout(limit):
                while True:
                    found = _parse(await loop.sock_recv(sock, 65535), identity, sequence)
                    if found is not None:
                        elapsed = (time.perf_counter() - start) * 1000
                        return Echo(found.kind, found.source, found.ttl, elapsed, found.code)
        except TimeoutError:
            return Echo("timeout")


def _parse(packet: bytes, identity: int, sequence: int) -> Echo | None:
    header = (packet[0] & 15) * 4
    ttl = packet[8]
    source = socket.inet_ntoa(packet[12:16])
    body = packet[header:]
    if len(body) < 8:
        return None
    kind = body[0]
    code = body[1]
    if kind == _ECHO_REPLY and struct.unpack("!HH", body[4:8]) == (identity, sequence):
        return Echo("reply", source, ttl, code=code)
    if kind in (_UNREACHABLE, _TIME_EXCEEDED) and len(body) >= 36:
        inner = body[8 + (body[8] & 15) * 4 :]
        if len(inner) >= 8 and struct.unpack("!HH", inner[4:8]) == (identity, sequence):
            return Echo("unreachable", source, ttl, code=code)
    return None
