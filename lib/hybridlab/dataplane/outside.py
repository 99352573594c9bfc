"""A host beyond the cluster: a namespace of its own on the underlay, which knows the nodes and nothing of their pods.

It answers ping (its kernel does) and HTTP on port 80.  What comes with a pod's own address it cannot answer: it has no
route there, as hosts outside a cluster have none.  Nothing leaves it: it has no other interface and does not forward.
"""

import asyncio
import os
import socket
from collections.abc import Callable

from hybridlab.dataplane.fabric import Fabric
from hybridlab.kernel import namespaces, sysctl
from hybridlab.kernel.rtnetlink import LO_INDEX, RouteSocket

PORT = 80
"""The port of its HTTP server, which tells each client the address it saw."""
MAC = "02:00:00:02:00:01"
_ETH0_INDEX = 2
_HEAD_LIMIT = 8192
"""Bytes of a request's head."""


class Outside:
    """The host; every method but :meth:`serve` runs on the programming thread."""

    def __init__(self, address: str, mtu: int, fabric: Fabric) -> None:
        self.address = address
        self.netns = namespaces.new_netns()
        """Descriptor, owned here."""
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
        """Know a node: no ARP, as everywhere in the lab."""
        self._route.set_neighbour(_ETH0_INDEX, node_address, mac)
        self._route.set_route(f"{node_address}/32", index=_ETH0_INDEX)
        self._route.flush()

    def close(self) -> None:
        """Let go; the kernel takes the rest away."""
        self._route.close()
        os.close(self.netns)


async def serve(new_socket: Callable[[], socket.socket]) -> asyncio.Server:
    """Answer HTTP; ``new_socket`` makes a TCP socket on the host."""
    listener = new_socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", PORT))
    listener.listen(128)
    return await asyncio.start_server(_answer, sock=listener, limit=_HEAD_LIMIT)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.readuntil(b"\r\n\r\n")
        body = f"{writer.get_extra_info('peername')[0]}\n".encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass  # the client went away, or speaks something else: its connection was what it wanted
    finally:
        writer.close()
