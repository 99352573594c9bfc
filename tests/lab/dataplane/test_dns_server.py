# SPDX-License-Identifier: Apache-2.0
"""The resolver on real sockets, UDP and TCP: it serves until it is cancelled, and then closes
its sockets."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import dnslib

from hybridlab.dataplane.dns import Resolver
from hybridlab.dataplane.model import Zone
from hybridlab.dataplane.sandbox_socket import sandbox_socket
from tests.lab.dataplane.conftest import Lab

ZONE = Zone(domain="cluster.local", a={"web.default.svc.cluster.local": ("10.96.1.1",)})


class PodSockets:
    """Sockets of a pod as the runtime hands them to a server; born beforehand, because labd is remote."""

    def __init__(self, *born: Any) -> None:
        self.born = list(born)

    def socket(
        self, family: Any = socket.AF_INET, kind: Any = socket.SOCK_STREAM, proto: int = 0
    ) -> Any:
        sock = next(s for s in self.born if s.type == kind)
        self.born.remove(sock)
        return sock


async def connected(lab: Lab, source: Any, server: Any) -> Any:
    """Connect once the server listens; a socket that was refused is used up."""
    while True:
        sock = await sandbox_socket(lab.channel, source)
        try:
            await asyncio.get_running_loop().sock_connect(sock, server)
        except ConnectionRefusedError:
            sock.close()
            await asyncio.sleep(0.01)
        else:
            return sock


def test_pods_resolve_over_udp_and_tcp_until_the_server_is_cancelled(lab: Lab) -> None:
    async def ask_both() -> list[Any]:
        loop = asyncio.get_running_loop()
        resolver = Resolver()
        resolver.set_zone(ZONE)
        kinds = (socket.SOCK_DGRAM, socket.SOCK_STREAM)
        sockets = PodSockets(
            *[await sandbox_socket(lab.channel, "l2a", socket.AF_INET, kind) for kind in kinds]
        )
        serving = asyncio.ensure_future(resolver.serve(sockets))
        query = dnslib.DNSRecord.question("web.default.svc.cluster.local").pack()
        server = (lab.address("l2a"), 53)
        tcp = await connected(lab, "w1a", server)
        with tcp:
            await loop.sock_sendall(tcp, struct.pack("!H", len(query)) + query)
            by_tcp = await asyncio.wait_for(loop.sock_recv(tcp, 4096), 2)
        with await sandbox_socket(lab.channel, "w1a", socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.connect(server)
            await loop.sock_sendall(udp, query)
            by_udp = await asyncio.wait_for(loop.sock_recv(udp, 4096), 2)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        again = await sandbox_socket(lab.channel, "l2a", socket.AF_INET, socket.SOCK_DGRAM)
        again.bind(("0.0.0.0", 53))
        again.close()
        return [str(dnslib.DNSRecord.parse(data).rr[0].rdata) for data in (by_udp, by_tcp[2:])]

    assert lab.run(ask_both()) == ["10.96.1.1", "10.96.1.1"]
