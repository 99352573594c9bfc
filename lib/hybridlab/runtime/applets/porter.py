"""The porter server (Calico's Windows image and agnhost's subcommand): serves the value of each SERVE_*PORT_<n>.

As test/images/agnhost/porter/porter.go of Kubernetes: HTTP on every TCP port, the value alone as answer to a datagram.
"""

import asyncio
import contextlib
import os
import socket

from hybridlab.runtime.applet import Process
from hybridlab.runtime.applets import http
from hybridlab.runtime.applets.console import err, not_emulated

_TCP = ("SERVE_PORT_", "SERVE_TCP_PORT_")
_UDP = "SERVE_UDP_PORT_"


async def porter(process: Process) -> int:
    """Serve every port that a variable names, until killed."""
    for name in process.env:
        if name.startswith(("SERVE_TLS_PORT_", "SERVE_SCTP_PORT_")):
            return await not_emulated(process, f"porter with {name}")
    if options := [word for word in process.argv[1:] if word.startswith("-")]:
        return await not_emulated(process, f"porter {' '.join(options)}")
    async with contextlib.AsyncExitStack() as servers:
        for name, value in process.env.items():
            prefix = next((each for each in (*_TCP, _UDP) if name.startswith(each)), None)
            if prefix is None:
                continue
            port, kind = name.removeprefix(prefix), "udp" if prefix == _UDP else "tcp"
            try:
                await _serve(process, servers, kind, int(port), value)
            except (OSError, ValueError) as error:
                reason = os.strerror(error.errno or 0).lower() if isinstance(error, OSError) else str(error)
                if kind == "udp":
                    await err(process, f"UDP: failed to listen on port {port}: listen udp 0.0.0.0:{port}: {reason}")
                    return 1
                await err(process, f'server on port "{port}" failed: listen tcp 0.0.0.0:{port}: bind: {reason}')
        await asyncio.get_running_loop().create_future()
    return 0


async def _serve(process: Process, servers: contextlib.AsyncExitStack, kind: str, port: int, text: str) -> None:
    if kind == "tcp":
        sock = http.listen(process.net, port)
        await servers.enter_async_context(http.http_server(sock, _answer(text)))
        await err(process, f"serving on port {port}")
        return
    sock = servers.enter_context(http.listen(process.net, port, kind=socket.SOCK_DGRAM))
    answering = asyncio.create_task(answer_each(sock, text.encode()))
    servers.callback(answering.cancel)
    await err(process, f"Started UDP server on port {port}")


async def answer_each(sock: socket.socket, answer: bytes) -> None:
    """Answer every datagram with the same bytes until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        with contextlib.suppress(ConnectionError):
            _, peer = await loop.sock_recvfrom(sock, 2048)
            await loop.sock_sendto(sock, answer, peer)


def _answer(text: str) -> http.Handler:
    async def handle(request: http.Request) -> http.Reply:
        return http.Reply(200, text.encode(), "text/plain; charset=utf-8")

    return handle
