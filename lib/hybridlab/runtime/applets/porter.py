"""The porter server (Calico's Windows image and agnhost's subcommand): serves the value of each SERVE_PORT_<n>."""

import asyncio
import contextlib

from hybridlab.runtime.applet import Process
from hybridlab.runtime.applets import http
from hybridlab.runtime.applets.console import err, not_emulated

_PREFIX = "SERVE_PORT_"


async def porter(process: Process) -> int:
    """HTTP on every port that a ``SERVE_PORT_<n>`` variable names; runs until killed."""
    for name in process.env:
        if name.startswith(("SERVE_TLS_PORT_", "SERVE_SCTP_PORT_")):
            return await not_emulated(process, f"porter with {name}")
    async with contextlib.AsyncExitStack() as servers:
        for name, value in process.env.items():
            if not name.startswith(_PREFIX):
                continue
            port = name.removeprefix(_PREFIX)
            try:
                sock = http.listen(process.net, int(port))
            except (OSError, ValueError) as error:
                await err(process, f'server on port "{port}" failed: listen tcp :{port}: {error}')
                continue
            await servers.enter_async_context(http.http_server(sock, _answer(value)))
            await err(process, f"serving on port {port}")
        await asyncio.get_running_loop().create_future()
    return 0


def _answer(text: str) -> http.Handler:
    async def handle(request: http.Request) -> http.Reply:
        return http.Reply(200, text.encode(), "text/plain; charset=utf-8")

    return handle
