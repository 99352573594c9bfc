# SPDX-License-Identifier: Apache-2.0
"""A small API server on loopback that answers as a test defines, including exec over WebSocket."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Answer = tuple[Any, ...]
"""Status and body, and further headers if a test gives them."""
CORE = {
    "pods": "Pod", "nodes": "Node", "namespaces": "Namespace", "events": "Event", "configmaps": "ConfigMap",
    "secrets": "Secret",
}  # fmt: skip
GROUPS = {
    "apps/v1": {"deployments": "Deployment", "daemonsets": "DaemonSet", "replicasets": "ReplicaSet"},
    "projectcalico.org/v3": {"networkpolicies": "NetworkPolicy", "globalnetworkpolicies": "GlobalNetworkPolicy",
                             "clusterinformations": "ClusterInformation", "ippools": "IPPool",
                             "blockaffinities": "BlockAffinity"},
    "operator.tigera.io/v1": {"installations": "Installation"},
}  # fmt: skip
CLUSTER = {
    "nodes", "namespaces", "globalnetworkpolicies", "clusterinformations", "ippools", "installations",
    "blockaffinities",
}  # fmt: skip


@dataclass
class Request:
    """A request as the server received it."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    lines: tuple[tuple[str, str], ...] = ()
    """All headers; a key may occur several times."""


class Channel:
    """The server's side of an exec's WebSocket."""

    def __init__(self, sock: socket.socket, subprotocol: str) -> None:
        self.sock, self.subprotocol = sock, subprotocol
        self._lock = threading.Lock()

    def send(self, channel: int, data: bytes) -> None:
        self._frame(2, bytes([channel]) + data)

    def status(self, code: int | None = 0, **more: Any) -> None:
        status: dict[str, Any] = {"kind": "Status", "status": "Success"}
        if code:
            causes = [{"reason": "ExitCode", "message": str(code)}]
            status = {
                "kind": "Status",
                "status": "Failure",
                "reason": "NonZeroExitCode",
                "details": {"causes": causes},
            }
        if code is None:
            status = {"kind": "Status", "status": "Failure", **more}
        self.send(3, json.dumps(status).encode())

    def close(self) -> None:
        self._frame(8, struct.pack(">H", 1000))

    def cut(self) -> None:
        self.sock.shutdown(socket.SHUT_RDWR)

    def _frame(self, operation: int, data: bytes) -> None:
        size = len(data)
        head = bytes([0x80 | operation])
        head += (
            bytes([size])
            if size < 126
            else b"\x7e" + struct.pack(">H", size)
            if size < 65536
            else (b"\x7f" + struct.pack(">Q", size))
        )
        with self._lock:
            self.sock.sendall(head + data)

    def receive(self) -> tuple[int, bytes] | None:
        """Return (channel, data) of the next binary frame, and answer pings; None once the client
        has closed."""
        while True:
            head = self._exactly(2)
            if head is None:
                return None
            operation, size = head[0] & 15, head[1] & 127
            if size == 126:
                size = struct.unpack(">H", self._exactly(2) or b"\0\0")[0]
            elif size == 127:
                size = struct.unpack(">Q", self._exactly(8) or b"\0" * 8)[0]
            mask, data = self._exactly(4) or b"\0" * 4, self._exactly(size) or b""
            data = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
            if operation == 8:
                return None
            if operation == 9:
                self._frame(10, data)
            elif operation == 2:
                return data[0], data[1:]

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                more = self.sock.recv(size - len(data))
            except OSError:
                return None
            if not more:
                return None
            data += more
        return data


@dataclass
class FakeApi:
    """The server. ``routes`` maps ``METHOD path`` (a regular expression for the path) to an answer,
    or to a function that returns an answer."""

    routes: dict[str, Any] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    exec: Callable[[Channel, dict[str, list[str]]], None] | None = None
    exec_refusal: Answer | None = None
    exec_credentials: str = ""
    """The Authorization header that execs need, if any; other execs are answered with 401."""
    subprotocols: tuple[str, ...] = ("v5.channel.k8s.io", "v4.channel.k8s.io")
    stop_reading: bool = False

    def start(self, context: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = (
                True  # otherwise each answer costs a delayed acknowledgement of 40 ms
            )

            def handle_one(self) -> None:
                api._handle(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one  # noqa: N815

            def log_message(self, *_: Any) -> None: ...

        class Server(http.server.ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

            # clients close connections whose answers they do not need
            def handle_error(self, *_: Any) -> None: ...

        self.server = Server((host, 0), Handler)
        self.server.daemon_threads = True
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if context else 'http'}://{f'[{host}]' if ':' in host else host}:{self.server.server_port}"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def _handle(self, handler: Any) -> None:
        parts = urlsplit(handler.path)
        size = int(handler.headers.get("Content-Length") or 0)
        raw = handler.rfile.read(size) if size else b""
        query = parse_qs(parts.query)
        request = Request(
            handler.command, parts.path, {key: value[0] for key, value in query.items()}, dict(handler.headers),
            json.loads(raw) if raw[:1] in (b"{", b"[") else raw or None,
            tuple(handler.headers.items()),
        )  # fmt: skip
        self.requests.append(request)
        if parts.path.endswith("/exec"):
            self._exec(handler, query)
            return
        code, body, *more = self._answer(request)
        if callable(body):  # the exec sends its own answer
            body(handler)
            return
        headers = {"Content-Type": "application/json"} | (
            {"Retry-After": "0"} if code == 429 else {}
        )
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(code)
        for key, value in (headers | (more[0] if more else {})).items():
            handler.send_header(key, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def _answer(self, request: Request) -> Answer:
        for pattern, answer in self.routes.items():
            method, _, path = pattern.partition(" ")
            if method == request.method and re.fullmatch(path, request.path):
                found: Answer = answer(request) if callable(answer) else answer
                return found
        discovered = discovery(request.path)
        return (
            discovered
            if discovered and request.method == "GET"
            else status(404, "NotFound", "not found")
        )

    def _exec(self, handler: Any, query: dict[str, list[str]]) -> None:
        refusal = self.exec_refusal
        if self.exec_credentials and handler.headers["Authorization"] != self.exec_credentials:
            refusal = status(401, "Unauthorized", "Unauthorized")
        if refusal:
            code, body, *more = refusal
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            handler.send_response(code)
            for key, value in (more[0] if more else {}).items():
                handler.send_header(key, value)
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data)
            return
        offered = [part.strip() for part in handler.headers["Sec-WebSocket-Protocol"].split(",")]
        chosen = next(
            subprotocol
            for subprotocol in self.subprotocols
            if subprotocol in offered or subprotocol == "other"
        )
        key = (
            handler.headers["Sec-WebSocket-Key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        )
        handler.send_response(101)
        handler.send_header("Upgrade", "websocket")
        handler.send_header("Connection", "Upgrade")
        handler.send_header(
            "Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key).digest()).decode()
        )
        if chosen != "other":
            handler.send_header("Sec-WebSocket-Protocol", chosen)
        handler.end_headers()
        handler.close_connection = True
        if self.exec:
            self.exec(Channel(handler.connection, chosen), query)


def status(code: int, reason: str, message: str) -> Answer:
    return code, {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def discovery(path: str) -> Answer | None:
    if path == "/version":
        return 200, {"gitVersion": "v1.34.1"}
    if path == "/apis":
        groups = [
            {"name": group.partition("/")[0], "versions": [{"groupVersion": group}]}
            for group in GROUPS
        ]
        return 200, {"groups": groups}
    kinds = CORE if path == "/api/v1" else GROUPS.get(path.removeprefix("/apis/"))
    if kinds is None:
        return None
    resources = [
        {"name": one, "kind": kind, "namespaced": one not in CLUSTER} for one, kind in kinds.items()
    ]
    return 200, {"resources": resources}


def listing(*items: dict[str, Any], version: str = "7") -> Answer:
    return 200, {"items": list(items), "metadata": {"resourceVersion": version}}


def kubeconfig(
    path: Path, server: str, *, token: str = "t", authority: str = "", **change: Any
) -> Path:
    """Write a kubeconfig file; ``change`` replaces top-level entries."""
    cluster: dict[str, Any] = {"server": server}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority.encode()).decode()
    content: dict[str, Any] = {
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }  # fmt: skip
    path.write_text(json.dumps(content | change))
    return path
