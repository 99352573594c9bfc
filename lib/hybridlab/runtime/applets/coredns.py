# SPDX-License-Identifier: Apache-2.0
"""The coredns image: the cluster's resolver, which labd passes in, and CoreDNS's health and
readiness ports."""

import os
from collections.abc import Awaitable, Callable

from hybridlab.runtime.applet import Applet, Net, Process
from hybridlab.runtime.applets import http
from hybridlab.runtime.applets.console import err, out

ServeNames = Callable[[Net], Awaitable[None]]
"""Serves port 53, UDP and TCP, from sockets of the given Net until it is cancelled."""


def coredns(resolver: ServeNames) -> Applet:
    """Return the applet that runs ``resolver``."""

    async def run(process: Process) -> int:
        async def health(request: http.Request) -> http.Reply:
            known = request.path == "/health"
            return http.Reply(200 if known else 404, b"OK" if known else b"404 page not found\n")

        async def ready(request: http.Request) -> http.Reply:
            known = request.path == "/ready"
            return http.Reply(200 if known else 404, b"OK" if known else b"404 page not found\n")

        try:
            async with (
                http.http_server(http.listen(process.net, 8080), health),
                http.http_server(http.listen(process.net, 8181), ready),
            ):
                await out(process, ".:53", "CoreDNS-1.12.1", "linux/amd64, go1.24.1, 707c7c1")
                await resolver(process.net)
        except OSError as error:
            await err(process, f"Listen: {os.strerror(error.errno or 0)}")
            return 1
        return 0

    return run
