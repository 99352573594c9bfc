# SPDX-License-Identifier: Apache-2.0
"""An HTTP proxy on loopback: CONNECT tunnels and plain requests, with or without credentials."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator

TRICKLES = 300
"""The number of bytes of a slow answer after which the proxy gives up."""


class LoopbackProxy:
    """A proxy. ``heads`` are the requests that it received; ``answer`` is a status line that it
    sends instead of opening a tunnel.

    ``pause``: seconds between two bytes of an answer to CONNECT that never becomes complete; 0: it
    answers at once.
    """

    def __init__(self, answer: str = "", wanted: str = "", pause: float = 0.0) -> None:
        self.answer, self.wanted, self.pause = answer, wanted, pause
        self.heads: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connection, args=(client,), daemon=True).start()

    def _connection(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), client:
            data = b""
            while b"\r\n\r\n" not in data:
                if not (more := client.recv(65536)):
                    return
                data += more
            head = data.decode("latin-1")
            self.heads.append(head)
            answer = self.answer
            if self.wanted and f"proxy-authorization: {self.wanted}".lower() not in head.lower():
                answer = "407 Proxy Authentication Required"
            if answer:
                client.sendall(
                    f"HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
                )
                return
            if self.pause:
                for _ in range(TRICKLES):
                    client.sendall(b"H")
                    time.sleep(self.pause)
                return
            method, target, _ = head.split(" ", 2)
            host, _, port = target.removeprefix("http://").partition("/")[0].rpartition(":")
            with socket.create_connection((host.strip("[]"), int(port))) as server:
                if method == "CONNECT":
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                else:
                    server.sendall(data)
                ends = (client, server)
                while True:
                    for end in select.select(ends, [], [])[0]:
                        if not (more := end.recv(65536)):
                            return
                        ends[end is client].sendall(more)


@contextlib.contextmanager
def loopback_proxy(
    answer: str = "", wanted: str = "", pause: float = 0.0
) -> Iterator[LoopbackProxy]:
    proxy = LoopbackProxy(answer, wanted, pause)
    try:
        yield proxy
    finally:
        proxy.close()
