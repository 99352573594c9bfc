# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.x as the emulated clients and servers need it: one request per client connection, plain servers, no TLS."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import urlsplit

from hybridlab import assumed
from hybridlab.runtime.applet import Net

_LIMIT = 1 << 20
"""Longest header line and largest buffered chunk, bytes."""
LONG = 16384
"""The maximum size in bytes of a request's head for http.sys (MaxRequestBytes)."""
ODD = ("head-without-end", "long-head", "without-host")
ENDS = {"200": 200, "400": 400, "closed": 0}
HTTP_SYS = {name: assumed.one_of(name, ENDS) for name in ODD}
"""The status with which http.sys answers each kind of malformed request; 0: it closes the
connection."""


class ConnectFailed(OSError):
    """No connection was established; ``errno`` is the reason."""


class BadAnswer(Exception):
    """The peer closed without an answer, or sent something that is not HTTP."""


@dataclass(frozen=True)
class Url:
    """The parts of an http URL."""

    host: str
    port: int
    target: str
    """Path and query, as sent."""
    scheme: str = "http"

    @classmethod
    def parse(cls, text: str) -> Url:
        """Return the parts of ``http://host[:port][/path]``; the default scheme is http. Raise
        ValueError.
        """
        if "://" not in text:
            text = "http://" + text
        parts = urlsplit(text)
        if not parts.hostname:
            raise ValueError(f"no host in {text!r}")
        default = 443 if parts.scheme == "https" else 80
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.hostname, parts.port or default, target, parts.scheme)

    @property
    def authority(self) -> str:
        return self.host if self.port == 80 else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Response:
    """A complete answer."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    version: str = "HTTP/1.1"

    def header(self, name: str) -> str:
        """Return the first header of that name, or an empty string."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


async def connect(
    net: Net, address: str, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a TCP connection from ``net``; raise OSError as connect(2) does."""
    sock = net.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
        return await asyncio.open_connection(sock=sock, limit=_LIMIT)
    except BaseException:
        sock.close()
        raise


async def request(
    net: Net, url: Url, address: str, *, headers: Mapping[str, str] | None = None
) -> Response:
    """Send a GET to ``address`` on a new connection; the call has no time-out of its own.

    Raise :class:`ConnectFailed` if there is no connection, OSError if the connection fails later,
    and :class:`BadAnswer`.
    """
    try:
        reader, writer = await connect(net, address, url.port)
    except OSError as error:
        raise ConnectFailed(error.errno, os.strerror(error.errno or 0)) from error
    lines = [f"GET {url.target} HTTP/1.1", f"Host: {url.authority}"]
    lines += [f"{key}: {value}" for key, value in (headers or {}).items()]
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode())
        return await _read_response(reader)
    finally:
        abort(writer)


def abort(writer: asyncio.StreamWriter) -> None:
    """Close without waiting; data that is still in the buffer is sent."""
    with contextlib.suppress(Exception):
        writer.close()


async def _read_response(reader: asyncio.StreamReader) -> Response:
    line = await _line(reader)
    if not line:
        raise BadAnswer("the connection was closed without an answer")
    version, _, rest = line.partition(" ")
    status, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/") or not status.isdigit():
        raise BadAnswer(f"not an HTTP answer: {line[:80]!r}")
    headers = await _headers(reader)
    named = {key.lower(): value for key, value in headers}
    body = b""
    if int(status) not in (204, 304):
        if "chunked" in named.get("transfer-encoding", "").lower():
            body = await _chunks(reader)
        elif "content-length" in named:
            try:
                body = await reader.readexactly(int(named["content-length"]))
            except asyncio.IncompleteReadError as error:
                raise BadAnswer(
                    f"the connection ended after {len(error.partial)} of {error.expected} bytes"
                ) from None
        else:
            body = await reader.read()
    return Response(int(status), reason, tuple(headers), body, version)


async def _line(reader: asyncio.StreamReader) -> str:
    return (await reader.readline()).decode("latin-1").rstrip("\r\n")


async def _headers(reader: asyncio.StreamReader) -> list[tuple[str, str]]:
    headers = []
    while line := await _line(reader):
        name, _, value = line.partition(":")
        headers.append((name.strip(), value.strip()))
    return headers


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await _line(reader)).partition(";")[0] or "0", 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await _headers(reader)
    return body


@dataclass(frozen=True)
class Request:
    """The request that a server received."""

    method: str
    target: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    peer: tuple[str, int]
    local: tuple[str, int]
    odd: str = ""
    """The kind of malformed request, an entry of ``ODD``; empty: the request is well-formed."""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


@dataclass(frozen=True)
class Reply:
    """A server's answer; ``Date``, ``Content-Length`` and ``Connection`` are added to it."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain"
    headers: Mapping[str, str] = field(default_factory=dict)
    keep_alive: bool = True
    reason: str = ""


Handler = Callable[[Request], Awaitable[Reply]]


BACKLOG = 1024
"""Connections that wait to be accepted. .NET's listeners use the system's maximum; a full queue
drops packets, which a client cannot distinguish from a denial."""


def listen(
    net: Net, port: int, *, kind: int = socket.SOCK_STREAM, address: str = ""
) -> socket.socket:
    """Return a bound (and for TCP listening) socket in ``net``. Raise OSError if the port is in
    use."""
    sock = net.socket(socket.AF_INET, kind)
    try:
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        if kind == socket.SOCK_STREAM:
            sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


@contextlib.asynccontextmanager
async def tcp_server(
    sock: socket.socket,
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[None]:
    """Serve connections of a listening socket inside the block; close all connections at its
    end."""
    loop = asyncio.get_running_loop()
    running: set[asyncio.Task[None]] = set()

    async def one(connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection, limit=_LIMIT)
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass  # the peer is gone or sent rubbish: the server continues
        finally:
            abort(writer)

    def accept() -> None:
        for _ in range(BACKLOG):
            try:
                connection, _ = sock.accept()
            # no connection waits any more, or the peer left before its connection was accepted
            except OSError:
                return
            connection.setblocking(False)
            if _left(connection):
                connection.close()
                continue
            task = loop.create_task(one(connection))
            running.add(task)
            task.add_done_callback(running.discard)

    loop.add_reader(sock, accept)
    try:
        yield
    finally:
        loop.remove_reader(sock)
        sock.close()
        for task in running:
            task.cancel()


def _left(connection: socket.socket) -> bool:
    """Return whether the peer has already closed the connection, as most probes do directly after
    connecting."""
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def http_server(
    sock: socket.socket, handler: Handler, *, server: str = "", odd: Mapping[str, int] | None = None
) -> contextlib.AbstractAsyncContextManager[None]:
    """Answer HTTP requests on a listening socket inside the block.

    ``server`` is the Server header. ``odd`` maps each kind of malformed request to the status of
    its answer; 0 means that the connection is closed.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (got := await _read_request(reader, writer)) is not None:
            status = (odd or {}).get(got.odd, HTTPStatus.OK)
            if not status:
                return
            is_served = status == HTTPStatus.OK
            reply = await handler(got) if is_served else Reply(status, keep_alive=False)
            keep = reply.keep_alive and got.headers.get("connection", "").lower() != "close"
            writer.write(_encode(reply, keep=keep, server=server, head=got.method == "HEAD"))
            await writer.drain()
            if not keep:
                return

    return tcp_server(sock, serve)


async def _read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Request | None:
    line = await _line(reader)
    if not line:
        return None
    method, target, version = [*line.split(" "), "", ""][:3]
    headers: dict[str, str] = {}
    size = len(line)
    while (raw := await reader.readline()).strip():
        size += len(raw)
        name, _, value = raw.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    is_odd = (not raw, size > LONG, version == "HTTP/1.1" and "host" not in headers)
    odd = next((name for name, is_so in zip(ODD, is_odd, strict=True) if is_so), "")
    if version == "HTTP/1.0" and headers.get("connection", "").lower() != "keep-alive":
        headers["connection"] = "close"
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    peer = writer.get_extra_info("peername")
    return Request(
        method, target, headers, body, peer[:2], writer.get_extra_info("sockname")[:2], odd
    )


def _encode(reply: Reply, *, keep: bool, server: str, head: bool) -> bytes:
    reason = reply.reason or HTTPStatus(reply.status).phrase
    headers = {
        **({"Server": server} if server else {}),
        "Date": formatdate(usegmt=True),
        "Content-Type": reply.content_type,
        "Content-Length": str(len(reply.body)),
        "Connection": "keep-alive" if keep else "close",
        **reply.headers,
    }
    top = f"HTTP/1.1 {reply.status} {reason}\r\n" + "".join(
        f"{k}: {v}\r\n" for k, v in headers.items() if v
    )
    return top.encode() + b"\r\n" + (b"" if head else reply.body)
