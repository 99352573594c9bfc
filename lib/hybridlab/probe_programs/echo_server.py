# SPDX-License-Identifier: Apache-2.0
"""The Windows echo server's behaviour: HTTP and UDP answers with the client's address, according to
section 7 of the protocol."""

import asyncio
import contextlib
import ipaddress
import json
import socket
from collections import Counter
from collections.abc import Sequence

from hybridlab.probe_programs.agent import MARK
from hybridlab.probe_programs.recorded import PROTOCOL, Program
from hybridlab.runtime.applet import Process
from hybridlab.runtime.applets import http

LONG_BODY = 16 << 20
"""A body of more bytes is not echoed."""
LONG_DATAGRAM = 512
SHORT_ANSWER = b"?"
"""The answer to a datagram that begins with this text contains only the identity line."""


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end. A socket may be closed only when no task waits for it;
    otherwise the next socket with the same descriptor would receive nothing."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class EchoServer:
    """An echo server under way."""

    def __init__(
        self, process: Process, program: Program, *, ports: Sequence[int], page: bool
    ) -> None:
        self.process = process
        self.program = program
        self.ports = ports
        self.page = page
        self.pod = f"{process.env.get('POD_NAMESPACE', '')}/{process.env.get('POD_NAME', '')}"
        self.node = process.env.get("NODE_NAME", "")
        self.calls: Counter[str] = Counter()

    async def run(self) -> int:
        """Serve until killed; return 3 if a port is not available."""
        async with contextlib.AsyncExitStack() as stack:
            for port in self.ports:
                try:
                    listener = http.listen(self.process.net, port)
                except OSError as error:
                    await self.process.stderr.write(f"echo-server: port {port}: {error}\n".encode())
                    return 3
                await stack.enter_async_context(
                    http.http_server(
                        listener, self._answer, server="Microsoft-HTTPAPI/2.0", odd=http.HTTP_SYS
                    )
                )
                with contextlib.suppress(OSError):  # another program has the port
                    datagrams = stack.enter_context(
                        http.listen(self.process.net, port, kind=socket.SOCK_DGRAM)
                    )
                    stack.push_async_callback(
                        _end, asyncio.create_task(self._echo(datagrams, port))
                    )
            listening = {
                "type": "listening",
                "protocol": PROTOCOL,
                "program": self.program.name,
                "sha256": self.program.sha256,
                "ports": list(self.ports),
            }
            await self.process.stdout.write(MARK + json.dumps(listening).encode() + b"\n")
            await asyncio.get_running_loop().create_future()
        return 0

    async def _answer(self, request: http.Request) -> http.Reply:
        client, client_port = request.peer
        server, server_port = request.local
        headers = {
            "X-Probe-Client": client,
            "X-Probe-Client-Port": str(client_port),
            "X-Probe-Server": server,
            "X-Probe-Pod": self.pod,
            "X-Probe-Node": self.node,
        }
        if self.page and request.method == "GET" and request.path == "/":
            self.calls[client] += 1
            text = (
                "<html><body><H1>Windows Container Web Server</H1>"
                f"<p>IP {server} callerCount {self.calls[client]} </body></html>"
            )
            return http.Reply(200, text.encode(), "text/html", headers, keep_alive=False)
        if (
            request.method in ("POST", "PUT")
            and not {"content-length", "transfer-encoding"} & request.headers.keys()
        ):
            return http.Reply(411, keep_alive=False)
        if len(request.body) > LONG_BODY:
            line = self._identity((client, client_port), (server, server_port))
            return http.Reply(413, line, "application/json", headers, keep_alive=False)
        if request.method == "POST":
            return http.Reply(
                200, request.body, "application/octet-stream", headers, keep_alive=False
            )
        line = self._identity((client, client_port), (server, server_port))
        return http.Reply(200, line, "application/json", headers, keep_alive=False)

    async def _echo(self, sock: socket.socket, port: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            request, peer = await loop.sock_recvfrom(sock, 65536)
            line = self._identity(peer[:2], (self._own_address(peer[0]), port))
            answer = line
            if not request.startswith(SHORT_ANSWER):
                answer += request[len(line) :] if len(request) > LONG_DATAGRAM else request
            with contextlib.suppress(OSError):  # the client's port is gone; the server continues
                await loop.sock_sendto(sock, answer, peer)

    def _own_address(self, client: str) -> str:
        """Return the address with which the pod communicates with this client, as Get-OwnAddress of
        echo-server.ps1 does."""
        return client if ipaddress.IPv4Address(client).is_loopback else self.process.net.address

    def _identity(self, client: tuple[str, int], server: tuple[str, int]) -> bytes:
        identity = {
            "client": client[0],
            "client_port": client[1],
            "server": server[0],
            "server_port": server[1],
            "pod": self.pod,
            "node": self.node,
        }
        return json.dumps(identity, separators=(",", ":")).encode() + b"\n"
