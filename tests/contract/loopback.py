# SPDX-License-Identifier: Apache-2.0
"""Servers on loopback for the golden conversations: the servers that pods run, an echo server, and
servers on IPv6."""

from __future__ import annotations

import contextlib
import random
import runpy
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parents[2] / "manifests" / "probes"
ECHO = PROGRAMS / "echo_server.py"
GOLDEN: dict[str, Any] = runpy.run_path(str(PROGRAMS / "golden_server.py"))
"""The functions of the servers that pods run."""


local: Callable[..., socket.socket] = GOLDEN["local"]
both: Callable[..., tuple[socket.socket, socket.socket]] = GOLDEN["both"]
serve: Callable[..., None] = GOLDEN["serve"]
datagrams: Callable[..., None] = GOLDEN["datagrams"]
reset: Callable[[socket.socket], None] = GOLDEN["reset"]


def unused() -> int:
    """Return a port on which nothing listens, outside the range from which the kernel assigns ports
    by itself.

    A port of the kernel's range might be taken by another socket, such as a client of another test,
    before the server is bound to it.
    """
    for port in random.sample(range(20000, 32000), 100):
        with (
            socket.socket() as stream,
            socket.socket(type=socket.SOCK_DGRAM) as sock,
            contextlib.suppress(OSError),
        ):
            stream.bind(("127.0.0.1", port))
            sock.bind(("127.0.0.1", port))
            return port
    raise OSError("none of a hundred ports from 20000 to 31999 is unused")


@contextlib.contextmanager
def servers() -> Iterator[dict[str, int]]:
    """Map the names in the golden conversations to ports."""
    with contextlib.ExitStack() as stack:
        ports: dict[str, int] = {}

        def keep(name: str, *sockets: socket.socket) -> tuple[socket.socket, ...]:
            for item in sockets:
                stack.callback(item.close)
            ports[name] = sockets[0].getsockname()[1]
            return sockets

        ports["$REFUSING"] = unused()
        ports.update(stack.enter_context(GOLDEN["servers"]()))
        silent: list[socket.socket] = []
        with contextlib.suppress(OSError):  # this machine has no IPv6
            stream, sock = keep("$SIX", *both("::1"))
            serve(stream, silent.append)
            datagrams(sock, lambda data: [data])
            GOLDEN["resolve"](*keep("$DNS6", *both("::1")))
        ports["$ECHO"] = unused()
        program = [sys.executable, "-I", "-S", "-u", str(ECHO), "--ports", str(ports["$ECHO"])]
        environment = {"POD_NAMESPACE": "ns", "POD_NAME": "echo", "NODE_NAME": "w1"}
        process = subprocess.Popen(program, stdout=subprocess.PIPE, env=environment)
        stack.callback(process.wait, 5)
        stack.callback(process.kill)
        assert process.stdout is not None
        stack.callback(process.stdout.close)
        assert b'"listening"' in process.stdout.readline()
        yield ports
