# SPDX-License-Identifier: Apache-2.0
"""A TLS proxy on loopback in front of a lab's API server: it passes requests on, refuses them by a
rule, or is away.

Each connection carries one request, so that the rule gets every request; upgraded requests (exec)
are passed on unchanged.
"""

from __future__ import annotations

import base64
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import trustme
import yaml

REVIEWS = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")


@dataclass(frozen=True)
class Asked:
    """The properties of a request on which a rule can depend."""

    method: str
    path: str
    upgrade: bool

    @property
    def reads(self) -> bool:
        """Return whether the request only reads: get, list, watch, or a review of the user's own
        access."""
        if self.upgrade or self.path.partition("?")[0].endswith(
            ("/exec", "/attach", "/portforward")
        ):
            return False
        return self.method == "GET" or (
            self.method == "POST" and self.path.partition("?")[0].endswith(REVIEWS)
        )


Rule = Callable[[Asked], int]
"""Returns the status with which a request is refused; 0: the request is passed on."""


@dataclass
class ApiProxy:
    """A proxy that listens as soon as it is created."""

    kubeconfig: Path
    """A kubeconfig that names the proxy in place of the lab."""
    upstream: tuple[str, int]
    authority: str
    """The lab's authority, in PEM."""
    server: ssl.SSLContext
    rule: Rule = field(default=lambda asked: 0)
    refused: list[Asked] = field(default_factory=list)
    passed: list[Asked] = field(default_factory=list)
    away: bool = False
    """True if all connections are reset at once, as if no server existed."""
    port: int = 0

    def __post_init__(self) -> None:
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def go_away(self) -> None:
        """Reset open connections, and all new connections."""
        self.away = True
        for one in list(self._open):
            _reset(one)

    def close(self) -> None:
        self.away = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._open):
            _reset(one)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.away:
                _reset(client)
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        self._open.add(plain)
        with suppress(OSError, ValueError):
            client = self.server.wrap_socket(plain, server_side=True)
            self._open.add(client)
            self._request(client)
            client.close()
        with suppress(OSError):
            plain.close()
        self._open = {one for one in self._open if one.fileno() >= 0}

    def _request(self, client: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = client.recv(65536)
            if not more:
                return
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        method, path, _ = first.split(" ", 2)
        asked = Asked(method, path, upgrade="upgrade" in headers)
        while len(body) < int(headers.get("content-length", 0)):
            body += client.recv(65536)
        if status := self.rule(asked):
            self.refused.append(asked)
            client.sendall(_refusal(status, asked))
            return
        self.passed.append(asked)
        if not asked.upgrade:
            lines = [line for line in lines if not line.lower().startswith("connection:")] + [
                "Connection: close"
            ]
        context = ssl.create_default_context(cadata=self.authority)
        with context.wrap_socket(
            socket.create_connection(self.upstream), server_hostname=self.upstream[0]
        ) as server:
            self._open.add(server)
            server.sendall("\r\n".join([first, *lines]).encode("latin-1") + b"\r\n\r\n" + body)
            if asked.upgrade:
                threading.Thread(target=_pipe, args=(client, server), daemon=True).start()
            _pipe(server, client)


def _pipe(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError, ValueError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


def _reset(one: socket.socket) -> None:
    """Close a connection so that the other end notices it at once, even if a thread here waits for
    data."""
    with suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def _refusal(status: int, asked: Asked) -> bytes:
    reason = {401: "Unauthorized", 403: "Forbidden"}.get(status, "InternalError")
    message = f"the proxy refuses {asked.method}" if status != 401 else "Unauthorized"
    body = f'{{"kind":"Status","status":"Failure","code":{status},"reason":"{reason}","message":"{message}"}}'.encode()
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body


@contextmanager
def api_proxy(lab: Path, folder: Path) -> Iterator[ApiProxy]:
    """Run a proxy in front of the API server of the kubeconfig ``lab``; write the proxy's
    kubeconfig into ``folder``."""
    content = yaml.safe_load(lab.read_text())
    cluster = content["clusters"][0]["cluster"]
    parts = urlsplit(cluster["server"])
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    pem = base64.b64decode(cluster["certificate-authority-data"]).decode()
    one = ApiProxy(
        folder / "kubeconfig-of-the-proxy",
        (str(parts.hostname), int(parts.port or 443)),
        pem,
        server,
    )
    cluster["server"] = f"https://127.0.0.1:{one.port}"
    cluster["certificate-authority-data"] = base64.b64encode(authority.cert_pem.bytes()).decode()
    one.kubeconfig.write_text(yaml.safe_dump(content))
    try:
        yield one
    finally:
        one.close()
