# SPDX-License-Identifier: Apache-2.0
"""Applets without a lab: their sockets are this machine's, on 127.0.0.1 only, and their streams are buffers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from hybridlab.runtime.applet import Applet, Host, Process
from hybridlab.runtime.applets import dns
from hybridlab.runtime.files import MemoryFiles
from hybridlab.runtime.streams import empty_stdin

T = TypeVar("T")


class BufferOutput:
    """A stream that stores everything that is written to it."""

    def __init__(self) -> None:
        self.data = bytearray()

    async def write(self, data: bytes) -> None:
        self.data += data


class LoopbackNet:
    """A network whose names are a dictionary; any address but 127.0.0.1 is an error of the test."""

    hostname = "pod"
    address = "127.0.0.1"
    nameservers: Sequence[str] = ("127.0.0.1",)
    searches: Sequence[str] = ("demo.svc.cluster.local",)
    resolver_options: Sequence[str] = ("ndots:5",)
    etc_hosts = ""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self.names = {"silent": "", **(names or {})}

    def socket(
        self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, proto: int = 0
    ) -> socket.socket:
        return socket.socket(family, kind | socket.SOCK_NONBLOCK, proto)

    async def resolve(self, name: str, *, timeout: float = 5.0) -> list[str]:  # noqa: ASYNC109 - the contract's name
        if dns.is_address(name):
            assert name.startswith("127.")
            return [name]
        if name not in self.names:
            raise dns.NameNotFound(name)
        if not self.names[name]:
            raise dns.ResolverSilent(name)
        return [self.names[name]]


@dataclass
class Ran:
    code: int
    out: str
    err: str


@dataclass
class Harness:
    """Runs applets; servers are asyncio's."""

    net: LoopbackNet = field(default_factory=LoopbackNet)
    settings: dict[str, float | str | int] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    files: MemoryFiles = field(default_factory=lambda: MemoryFiles("windows"))
    host: Host | None = None

    async def call(self, applet: Applet, *argv: str) -> Ran:
        out, err = BufferOutput(), BufferOutput()
        process = Process(
            argv=argv,
            env=self.env,
            net=self.net,
            files=self.files,
            stdin=empty_stdin(),
            stdout=out,
            stderr=err,
            settings=self.settings,
            host=self.host,
        )
        async with asyncio.timeout(5):
            code = await applet(process)
        return Ran(code, out.data.decode(), err.data.decode())

    def run(self, applet: Applet, *argv: str) -> Ran:
        return asyncio.run(self.call(applet, *argv))


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def tcp(serve: Serve) -> AsyncIterator[int]:
    """Run a server on 127.0.0.1 and yield its port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def answering(response: bytes) -> Serve:
    """Return a server that reads a request's head, answers with ``response`` and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if response:
            await reader.readuntil(b"\r\n\r\n")
        writer.write(response)
        writer.close()

    return serve


def http_answer(body: str, status: str = "200 OK", kind: str = "text/html") -> Serve:
    """Return a server that sends a whole HTTP answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return answering((head + body).encode())


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accept a connection and never answer."""
    await reader.read()
    writer.close()


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
def closed_port() -> int:
    """Return a port of 127.0.0.1 that refuses connections."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port
