# SPDX-License-Identifier: Apache-2.0
"""The resolver of a pod's C library: hosts file, A records, search list, over the pod's own
sockets."""

import asyncio
import contextlib
import errno
import ipaddress
import os
import random
import socket
from dataclasses import dataclass

from dnslib import QTYPE, RCODE, DNSRecord

from hybridlab.runtime.applet import Net

NDOTS = 1
"""The value of the option ndots in resolv.conf(5), if the option is missing."""
ATTEMPTS = 2
"""The number of queries before the resolver counts as silent, as in glibc and musl."""


class NameNotFound(Exception):
    """The resolver answered that the name does not exist, or that it has no A record; the message
    is the name."""


class ResolverSilent(Exception):
    """The server did not answer, its port was closed, or its answer had no result (SERVFAIL): it
    stays unknown whether the name exists."""


@dataclass(frozen=True)
class Answer:
    """A response."""

    server: str
    rcode: str
    """``NOERROR``, ``NXDOMAIN``, ``SERVFAIL``, ``REFUSED`` ..."""
    name: str
    """The last name of the CNAME chain."""
    addresses: tuple[str, ...]
    aliases: tuple[tuple[str, str], ...] = ()
    """For each CNAME: its name and its target."""


def is_address(text: str) -> bool:
    """Return whether ``text`` is an IPv4 address in dotted notation."""
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def candidates(net: Net, name: str) -> list[str]:
    """Return the full names to try, in order."""
    dots = next((option[6:] for option in net.resolver_options if option.startswith("ndots:")), "")
    if name.endswith("."):
        return [name[:-1]]
    expanded = [f"{name}.{search}" for search in net.searches if search]
    return (
        [name, *expanded]
        if name.count(".") >= (int(dots) if dots.isdigit() else NDOTS)
        else [*expanded, name]
    )


def in_hosts(text: str, name: str) -> list[str]:
    """Return the IPv4 addresses that a hosts file gives a name."""
    lines = (line.partition("#")[0].lower().split() for line in text.splitlines())
    return [
        words[0]
        for words in lines
        if name.rstrip(".").lower() in words[1:] and is_address(words[0])
    ]


async def query(
    net: Net, name: str, kind: str = "A", *, server: str = "", limit: float = 5.0
) -> Answer:
    """Send a query for one full name to one server by UDP, and by TCP after a truncated answer.

    Raise :class:`ResolverSilent` if no answer comes within ``limit`` seconds,
    ConnectionRefusedError if the port is closed.
    """
    server = server or (net.nameservers[0] if net.nameservers else "")
    if not server:
        raise ResolverSilent(f"{name}: no nameserver is configured")
    request = DNSRecord.question(name, kind)
    request.header.id = random.getrandbits(16)
    packet = bytes(request.pack())
    try:
        async with asyncio.timeout(limit):
            reply = await _udp(net, server, packet, limit / ATTEMPTS)
            record = DNSRecord.parse(reply)
            if record.header.tc:
                record = DNSRecord.parse(await _tcp(net, server, packet))
    except TimeoutError:
        raise ResolverSilent(f"{name}: no answer from {server} within {limit:g} s") from None
    wanted = getattr(QTYPE, kind)
    final = name
    addresses = []
    aliases = []
    for rr in record.rr:
        if rr.rtype == QTYPE.CNAME:
            final = str(rr.rdata).rstrip(".")
            aliases.append((str(rr.rname).rstrip("."), final))
        elif rr.rtype == wanted:
            addresses.append(str(rr.rdata).rstrip("."))
    return Answer(server, str(RCODE[record.header.rcode]), final, tuple(addresses), tuple(aliases))


async def resolve(net: Net, name: str, *, limit: float = 5.0) -> list[str]:
    """Return the hosts file's addresses of ``name``, otherwise the A records of ``name`` with the
    pod's search list.

    If a nameserver does not answer, the next nameserver gets the rest of the time. Raise
    NameNotFound or ResolverSilent.
    """
    if is_address(name):
        return [name]
    if known := in_hosts(net.etc_hosts, name):
        return known
    if name.rstrip(".").lower() == "localhost":
        return ["127.0.0.1"]
    if name.lower() == net.hostname.lower():
        return [net.address]
    *others, last = net.nameservers or [""]
    for server in others:
        with contextlib.suppress(ResolverSilent):
            return await _by_server(net, name, server, limit / len(net.nameservers))
    return await _by_server(net, name, last, limit / (1 + len(others)))


async def _by_server(net: Net, name: str, server: str, limit: float) -> list[str]:
    problem = ""
    deadline = asyncio.get_running_loop().time() + limit
    for full in candidates(net, name):
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            break
        try:
            answer = await query(net, full, server=server, limit=left)
        except ConnectionRefusedError:
            raise ResolverSilent(f"{name}: connection refused by the resolver") from None
        except OSError as error:
            raise ResolverSilent(f"{name}: {os.strerror(error.errno or 0)}") from None
        if answer.rcode == "NOERROR" and answer.addresses:
            return list(answer.addresses)
        if answer.rcode == "SERVFAIL":
            problem = f"{name}: {answer.rcode} from {answer.server}"
    if problem:
        raise ResolverSilent(problem)
    raise NameNotFound(name)


async def _udp(net: Net, server: str, packet: bytes, again: float) -> bytes:
    loop = asyncio.get_running_loop()
    with net.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((server, 53))
        while True:
            await loop.sock_sendall(sock, packet)
            try:
                async with asyncio.timeout(again):
                    while (reply := await loop.sock_recv(sock, 4096))[:2] != packet[:2]:
                        continue  # an answer to another query
                    return reply
            except TimeoutError:
                continue
            except ConnectionRefusedError:
                raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused") from None


async def _tcp(net: Net, server: str, packet: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    sock = net.socket(socket.AF_INET, socket.SOCK_STREAM)
    with sock:
        await loop.sock_connect(sock, (server, 53))
        reader, writer = await asyncio.open_connection(sock=sock.dup())
        try:
            writer.write(len(packet).to_bytes(2, "big") + packet)
            return await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
        except asyncio.IncompleteReadError:
            raise TimeoutError from None
        finally:
            writer.close()
