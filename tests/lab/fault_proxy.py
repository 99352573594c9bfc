# SPDX-License-Identifier: Apache-2.0
"""A gateway before a lab's API server that refuses a share of the requests, as an overloaded
control plane does.

python -m tests.lab.fault_proxy LAB_KUBECONFIG NEW_KUBECONFIG --share 0.2

It writes a kubeconfig that points to the gateway, and serves until it is ended. Execs and watches
are treated like all other requests.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import random
import select
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import trustme
import yaml

CODES = {429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable"}
Fault = Callable[[str, str], tuple[int, dict[str, str], bytes] | None]
"""Maps method and target of a request to the answer that replaces the server's; None: the server
answers."""


def refusing(share: float, seed: int = 0) -> Fault:
    """Return a fault that refuses a share of the requests, with 429, 500 and 503 in turn; 429 has
    the ``Retry-After`` of API servers."""
    chance, lock = random.Random(seed), threading.Lock()

    def fault(_: str, __: str) -> tuple[int, dict[str, str], bytes] | None:
        with lock:
            if chance.random() >= share:
                return None
            code = chance.choice(list(CODES))
        status = {
            "kind": "Status",
            "status": "Failure",
            "code": code,
            "reason": CODES[code].replace(" ", ""),
        }
        headers = {"Content-Type": "application/json"} | (
            {"Retry-After": "1"} if code == 429 else {}
        )
        return code, headers, json.dumps(status | {"message": "refused by the gateway"}).encode()

    return fault


class FaultProxy:
    """A gateway. ``seen`` counts requests by the status of the gateway's answer; 0: the request was
    forwarded."""

    def __init__(self, kubeconfig: Path, fault: Fault) -> None:
        self._content = yaml.safe_load(kubeconfig.read_text())
        cluster = self._content["clusters"][0]["cluster"]
        self._server, self._fault = urlsplit(cluster["server"]), fault
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._upstream = ssl.create_default_context(cadata=authority)
        own = trustme.CA()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own.issue_cert("127.0.0.1").configure_cert(self._context)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        cluster["certificate-authority-data"] = base64.b64encode(own.cert_pem.bytes()).decode()
        cluster["server"] = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self.seen: dict[int, int] = {}
        self._lock = threading.Lock()

    def write_kubeconfig(self, path: Path) -> None:
        path.touch(0o600)
        path.write_text(yaml.safe_dump(self._content))

    def serve(self) -> None:
        """Serve until the listener is closed."""
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connection, args=(client,), daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _connection(self, raw: socket.socket) -> None:
        with contextlib.suppress(OSError, ssl.SSLError, ValueError), raw:
            raw.settimeout(600)
            with self._context.wrap_socket(raw, server_side=True) as client:
                while self._request(client):
                    pass

    def _request(self, client: ssl.SSLSocket) -> bool:
        """Answer or forward one request; return whether the connection stays open."""
        head, rest = _head(client)
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in lines)}
        while len(rest) < int(headers.get("content-length", 0)):
            rest += client.recv(65536)
        answer = self._fault(method, target)
        with self._lock:
            code = answer[0] if answer else 0
            self.seen[code] = self.seen.get(code, 0) + 1
        if answer:
            given = answer[1] | {"Content-Length": str(len(answer[2]))}
            told = "".join(f"{key}: {value}\r\n" for key, value in given.items())
            client.sendall(
                f"HTTP/1.1 {code} {CODES.get(code, 'OK')}\r\n{told}\r\n".encode() + answer[2]
            )
            return True
        if "upgrade" not in headers:
            lines = [line for line in lines if not line.lower().startswith("connection:")] + [
                "Connection: close"
            ]
        port = self._server.port or 443
        with (
            socket.create_connection((str(self._server.hostname), port), 30) as plain,
            self._upstream.wrap_socket(plain, server_hostname=self._server.hostname) as server,
        ):
            server.settimeout(600)
            server.sendall("\r\n".join([first, *lines]).encode("latin-1") + b"\r\n\r\n" + rest)
            _relay(client, server)
        return False


def _head(client: ssl.SSLSocket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := client.recv(65536)):
            raise OSError("the client has gone")
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _relay(*ends: ssl.SSLSocket) -> None:
    """Copy bytes in both directions until either end has no more. This uses one thread, because TLS
    connections must not be shared."""
    while True:
        waiting = [end for end in ends if end.pending()] or select.select(ends, [], [])[0]
        for end in waiting:
            if not (data := end.recv(65536)):
                return
            ends[end is ends[0]].sendall(data)


@contextlib.contextmanager
def fault_proxy(kubeconfig: Path, through: Path, fault: Fault) -> Iterator[FaultProxy]:
    """Run a gateway for one test; ``through`` is the path of the kubeconfig that it writes."""
    gateway = FaultProxy(kubeconfig, fault)
    gateway.write_kubeconfig(through)
    threading.Thread(target=gateway.serve, daemon=True).start()
    try:
        yield gateway
    finally:
        gateway.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A gateway before a lab that refuses a share of the requests."
    )
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("through", type=Path)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with fault_proxy(
        options.kubeconfig, options.through, refusing(options.share, options.seed)
    ) as gateway:
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
        print(gateway.seen)


if __name__ == "__main__":
    main()
