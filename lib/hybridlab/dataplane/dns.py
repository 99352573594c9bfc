# SPDX-License-Identifier: Apache-2.0
"""The cluster's DNS: answers from one zone over UDP and TCP, with the sockets that it is given.

The zone has A, SRV, PTR and CNAME records; an answer with a CNAME has the addresses of its target
too, if the zone has them. A query of any other type for an existing name gets an empty answer, and
an unknown name under the cluster's domain gets NXDOMAIN. For all other names, the answer is that of
the Corefile that kubeadm installs, with a server behind it that does not know them: also NXDOMAIN,
but not authoritative. The module uses nothing of Kubernetes; the zone is set from outside and is
the same for every server.
"""

import asyncio
import contextlib
import importlib
import ipaddress
import random
import socket
from typing import Any, Protocol

from hybridlab.dataplane.model import Zone

PORT = 53
TTL = 30
"""The TTL in the Corefile that kubeadm installs, in seconds."""
_LONGEST_CHAIN = 8
"""The maximum number of CNAMEs in one answer (CoreDNS, plugin/backend_lookup.go)."""
_UDP_LIMIT = 512
_EDNS_LIMIT = 1232
_REVERSE = ".in-addr.arpa"


class SocketSource(Protocol):
    """The source of the server's sockets: a pod's network."""

    def socket(self, family: int = ..., kind: int = ..., proto: int = ...) -> socket.socket:
        """Return a non-blocking socket."""


class Resolver:
    """Holds the zone and serves it."""

    def __init__(self) -> None:
        self._zone = Zone(domain="cluster.local", a={})
        self._inner: frozenset[str] = frozenset()
        self._late: tuple[tuple[ipaddress.IPv4Network, float], ...] = ()

    def set_zone(self, zone: Zone) -> None:
        inner: set[str] = set()
        for name in (*zone.a, *zone.srv, *zone.cname):
            labels = name.split(".")
            for start in range(1, len(labels)):
                parent = ".".join(labels[start:])
                if parent in inner:
                    break
                inner.add(parent)
        self._zone = zone
        self._inner = frozenset(inner)
        self._late = tuple(
            (ipaddress.IPv4Network(network), seconds) for network, seconds in zone.late
        )

    def delay(self, client: str) -> float:
        """Return the extra seconds that a client waits for each answer."""
        if not self._late:
            return 0.0
        address = ipaddress.IPv4Address(client)
        return max((seconds for network, seconds in self._late if address in network), default=0.0)

    async def serve(self, net: SocketSource) -> None:
        """Answer on port 53 of a pod's network until cancelled; then close the sockets."""
        # dnslib takes 10 ms to import and only labs with DNS need it: not at labd's start, and not on the loop.
        dns = await asyncio.to_thread(importlib.import_module, "dnslib")
        loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as opened:
            udp = opened.enter_context(net.socket(socket.AF_INET, socket.SOCK_DGRAM))
            tcp = opened.enter_context(net.socket(socket.AF_INET, socket.SOCK_STREAM))
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            udp.bind(("0.0.0.0", PORT))
            tcp.bind(("0.0.0.0", PORT))

            async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await self._serve_stream(dns, reader, writer)

            server = await asyncio.start_server(stream, sock=tcp)
            loop.add_reader(udp, self._serve_datagrams, dns, udp)
            try:
                await asyncio.Future()
            finally:
                loop.remove_reader(udp)
                server.close()

    def _serve_datagrams(self, dns: Any, udp: socket.socket) -> None:
        # A burst is answered in slices, so that the loop's other work is not kept waiting.
        for _ in range(16):
            try:
                query, client = udp.recvfrom(4096)
            except (BlockingIOError, ConnectionRefusedError):
                return
            answer = self.answer(dns, query, stream=False)
            if answer is None:
                continue
            if late := self.delay(client[0]):
                asyncio.get_running_loop().call_later(late, _send, udp, answer, client)
            else:
                _send(udp, answer, client)

    async def _serve_stream(
        self, dns: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(2), "big")
                answer = self.answer(dns, await reader.readexactly(length), stream=True)
                if answer is None:
                    return
                await asyncio.sleep(self.delay(writer.get_extra_info("peername")[0]))
                writer.write(len(answer).to_bytes(2, "big") + answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    def answer(self, dns: Any, query: bytes, *, stream: bool) -> bytes | None:
        """Return the packed answer to a packed query (``dns`` is the dnslib module); None if the
        bytes are no query."""
        try:
            request = dns.DNSRecord.parse(query)
        except dns.DNSError:
            return None
        if request.header.qr or not request.questions:
            return None
        reply = request.reply(ra=0, aa=1)
        limit = _UDP_LIMIT
        for record in request.ar:
            if record.rtype == dns.QTYPE.OPT:
                limit = max(_UDP_LIMIT, min(record.edns_len, _EDNS_LIMIT))
                reply.add_ar(dns.EDNS0(udp_len=_EDNS_LIMIT))
        self._fill(dns, reply)
        packed: bytes = reply.pack()
        if not stream and len(packed) > limit:
            short = request.reply(ra=0, aa=1)
            short.header.tc = 1
            packed = short.pack()
        return packed

    def _fill(self, dns: Any, reply: Any) -> None:
        asked = reply.q.qtype
        name = str(reply.q.qname).rstrip(".").lower()
        zone = self._zone
        inside = name == zone.domain or name.endswith(f".{zone.domain}")
        if name in zone.denied and asked not in (dns.QTYPE.A, dns.QTYPE.ANY):
            reply.header.rcode = dns.RCODE.NXDOMAIN
        elif name in zone.cname:
            self._follow(dns, reply, name)
        elif name in zone.a or name in zone.srv:
            self._add_addresses(dns, reply, reply.q.qname, name)
            if asked in (dns.QTYPE.SRV, dns.QTYPE.ANY):
                self._add_srv(dns, reply, zone.srv.get(name, ()))
        elif name.endswith(_REVERSE):
            self._add_pointer(dns, reply, name)
        elif not inside:
            self._forward(dns, reply)
        elif name not in self._inner and name != zone.domain:
            reply.header.rcode = dns.RCODE.NXDOMAIN
        if inside:
            self._add_authority(dns, reply)

    def _add_addresses(self, dns: Any, reply: Any, shown: Any, name: str) -> None:
        """Add the addresses of ``name`` to the answer, in random order, with ``shown`` as the
        records' name (CoreDNS, loadbalance)."""
        if reply.q.qtype in (dns.QTYPE.A, dns.QTYPE.ANY):
            addresses = self._zone.a.get(name, ())
            for address in random.sample(addresses, len(addresses)):
                reply.add_answer(dns.RR(shown, dns.QTYPE.A, ttl=TTL, rdata=dns.A(address)))

    def _add_pointer(self, dns: Any, reply: Any, name: str) -> None:
        target = self._zone.ptr.get(".".join(reversed(name.removesuffix(_REVERSE).split("."))))
        if target is None:
            self._forward(dns, reply)
        elif reply.q.qtype in (dns.QTYPE.PTR, dns.QTYPE.ANY):
            reply.add_answer(dns.RR(reply.q.qname, dns.QTYPE.PTR, ttl=TTL, rdata=dns.PTR(target)))

    def _follow(self, dns: Any, reply: Any, name: str) -> None:
        """Add the chain of CNAMEs and its last name's addresses, as CoreDNS'
        plugin/backend_lookup.go does."""
        question = reply.q
        shown = reply.q.qname
        if question.qtype not in (dns.QTYPE.A, dns.QTYPE.AAAA, dns.QTYPE.CNAME, dns.QTYPE.ANY):
            return
        for _ in range(_LONGEST_CHAIN):
            target = self._zone.cname[name]
            reply.add_answer(dns.RR(shown, dns.QTYPE.CNAME, ttl=TTL, rdata=dns.CNAME(target)))
            shown = target
            name = target.lower()
            if question.qtype == dns.QTYPE.CNAME or name not in self._zone.cname:
                break
        self._add_addresses(dns, reply, shown, name)

    @staticmethod
    def _forward(dns: Any, reply: Any) -> None:
        """Answer as a recursive server outside the cluster does for a name that does not exist."""
        reply.header.rcode = dns.RCODE.NXDOMAIN
        reply.header.aa = 0
        reply.header.ra = 1

    def _add_authority(self, dns: Any, reply: Any) -> None:
        """Add the zone's SOA to an empty answer; resolvers then do not take it for a referral."""
        if reply.rr:
            return
        domain = self._zone.domain
        start = dns.SOA(f"ns.dns.{domain}", f"hostmaster.{domain}", (1, 7200, 1800, 86400, TTL))
        reply.add_auth(dns.RR(domain, dns.QTYPE.SOA, ttl=TTL, rdata=start))

    def _add_srv(self, dns: Any, reply: Any, targets: tuple[tuple[int, str], ...]) -> None:
        for port, target in targets:
            record = dns.SRV(priority=0, weight=100 // len(targets), port=port, target=target)
            reply.add_answer(dns.RR(reply.q.qname, dns.QTYPE.SRV, ttl=TTL, rdata=record))
            for address in self._zone.a.get(target.lower(), ()):
                reply.add_ar(dns.RR(target, dns.QTYPE.A, ttl=TTL, rdata=dns.A(address)))


def _send(udp: socket.socket, answer: bytes, client: tuple[str, int]) -> None:
    with contextlib.suppress(OSError):  # like any resolver, drop the answer if the client is gone
        udp.sendto(answer, client)
