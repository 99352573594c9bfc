# SPDX-License-Identifier: Apache-2.0
"""The porter server (Calico's Windows image and agnhost's subcommand): serves the value of each
SERVE_*PORT_<n>.

It behaves as test/images/agnhost/porter/porter.go of Kubernetes: it serves HTTP on every TCP port,
and answers a datagram with the value alone.
"""

import asyncio
import contextlib
import re
import socket

from hybridlab.runtime.applet import Process
from hybridlab.runtime.applets import http
from hybridlab.runtime.applets.console import err, not_emulated

_SERVED = re.compile(r"SERVE_(TCP_|UDP_|)PORT_(.*)")


async def porter(process: Process) -> int:
    """Serve every port that an environment variable names, until killed."""
    for name in process.env:
        if name.startswith(("SERVE_TLS_PORT_", "SERVE_SCTP_PORT_")):
            return await not_emulated(process, f"porter with {name}")
    if options := [word for word in process.argv[1:] if word.startswith("-")]:
        return await not_emulated(process, f"porter {' '.join(options)}")
    async with contextlib.AsyncExitStack() as servers:
        for name, value in process.env.items():
            if not (given := _SERVED.fullmatch(name)):
                continue
            try:
                await _serve(process, servers, given[1], int(given[2]), value)
            except (OSError, ValueError) as error:
                await err(process, f'server on port "{given[2]}" failed: {error}')
                if given[1] == "UDP_":
                    return 1
        await asyncio.get_running_loop().create_future()
    return 0


async def _serve(
    process: Process, servers: contextlib.AsyncExitStack, kind: str, port: int, text: str
) -> None:
    if kind == "UDP_":
        sock = servers.enter_context(http.listen(process.net, port, kind=socket.SOCK_DGRAM))
        servers.callback(asyncio.create_task(answer_each(sock, text.encode())).cancel)
        await err(process, f"Started UDP server on port {port}")
    else:
        await servers.enter_async_context(
            http.http_server(http.listen(process.net, port), _answer(text))
        )
        await err(process, f"serving on port {port}")


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
