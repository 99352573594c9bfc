# SPDX-License-Identifier: Apache-2.0
"""A host outside the cluster: its own namespace on the underlay, with routes and neighbour entries
for the nodes but not for their pods.

It answers ping (its kernel does). On port 80 it answers HTTP and datagrams, and reports the
client's address as the echo servers of docs/probe-protocol.md do. It cannot answer packets with a
pod's own address: like hosts outside a cluster, it has no route there. No packet leaves it for
another network: it has no other interface and does not forward.
"""

import asyncio
import json
import os
import socket
from collections.abc import Callable

from hybridlab.dataplane.fabric import Fabric
from hybridlab.kernel import namespaces, sysctl
from hybridlab.kernel.rtnetlink import LO_INDEX, RouteSocket

PORT = 80
"""The port of the host's servers, HTTP and UDP, which report to each client the source address that
they received."""
MAC = "02:00:00:02:00:01"
_ETH0_INDEX = 2
_HEAD_LIMIT = 8192
"""The maximum number of bytes of a request's head."""


class Outside:
    """The host; every method except :meth:`serve` runs on the programming thread."""

    def __init__(self, address: str, mtu: int, fabric: Fabric) -> None:
        self.address = address
        self.netns = namespaces.new_netns()
        """A file descriptor that this object owns."""
        fabric.plug(self.netns, mac=MAC, mtu=mtu, index=_ETH0_INDEX)
        with namespaces.entered(self.netns):
            sysctl.write("net/ipv6/conf/all/disable_ipv6", 1, optional=True)
            sysctl.write("net/ipv4/ip_forward", 0)
            self._route = RouteSocket()
        self._route.set_link(LO_INDEX, what="lo")
        self._route.set_link(_ETH0_INDEX, what="eth0")
        self._route.add_address(_ETH0_INDEX, address, 32)
        self._route.flush()

    def meet(self, node_address: str, mac: str) -> None:
        """Add a route and a permanent neighbour entry for a node: the lab uses no ARP."""
        self._route.set_neighbour(_ETH0_INDEX, node_address, mac)
        self._route.set_route(f"{node_address}/32", index=_ETH0_INDEX)
        self._route.flush()

    def close(self) -> None:
        self._route.close()
        os.close(self.netns)


class Servers:
    """The servers of the host, which listen until they are closed."""

    def __init__(self, http: asyncio.Server, datagrams: asyncio.DatagramTransport) -> None:
        self._http = http
        self._datagrams = datagrams

    def close(self) -> None:
        self._http.close()
        self._datagrams.close()


async def serve(new_socket: Callable[[socket.SocketKind], socket.socket]) -> Servers:
    """Answer HTTP and datagrams; ``new_socket`` makes a socket on the host."""
    listener = new_socket(socket.SOCK_STREAM)
    datagrams = new_socket(socket.SOCK_DGRAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for each in (listener, datagrams):
        each.bind(("0.0.0.0", PORT))
    listener.listen(128)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        _Datagrams, sock=datagrams
    )
    return Servers(await asyncio.start_server(_answer, sock=listener, limit=_HEAD_LIMIT), transport)


class _Datagrams(asyncio.DatagramProtocol):
    """Answers each datagram with the identity line, followed by the datagram."""

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        line = json.dumps(
            {
                "client": address[0],
                "client_port": address[1],
                "server_port": PORT,
                "pod": "",
                "node": "",
            }
        )
        self._transport.sendto(line.encode() + b"\n" + data, address)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.readuntil(b"\r\n\r\n")
        client = writer.get_extra_info("peername")[0]
        body = f"{client}\n".encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Probe-Client: {client}\r\n"
        writer.write(
            f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
        )
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass  # the client is gone or does not speak HTTP: a connection was all it wanted
    finally:
        writer.close()
