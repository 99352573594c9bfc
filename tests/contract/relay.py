"""A relay on 127.0.0.1 between a stream's ends: it passes on, falls silent, resets or closes towards either of them."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Pair:
    """One connection through the relay: the opener's side and the acceptor's."""

    def __init__(self, opener: socket.socket, acceptor: socket.socket) -> None:
        self.sides = {"opened": opener, "accepted": acceptor}
        self.silent = False
        self.kept: list[tuple[socket.socket, bytes]] = []


class Relay:
    """Listens on :attr:`port` and relays to ``target``."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.pairs: list[Pair] = []
        self.dead = False
        """Whether new connections are accepted and then left without an answer."""
        self._over = False
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.listener, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def reset(self, side: str) -> None:
        """A RST towards one end; the other hears nothing more."""
        with self._lock:
            self._drop(side, reset=True)

    def finish(self, side: str) -> None:
        """A FIN towards one end; the other hears nothing more."""
        with self._lock:
            self._drop(side, reset=False)

    def silence(self, silent: bool = True) -> None:
        """Hold back what the first stream's ends say, or pass all of it on again."""
        with self._lock:
            pair = self.pairs[0]
            pair.silent = silent
            kept, pair.kept = (pair.kept, []) if not silent else ([], pair.kept)
            for to, data in kept:
                to.sendall(data)

    def close(self) -> None:
        self._over = True
        self._thread.join()
        self.listener.close()
        for pair in self.pairs:
            for one in pair.sides.values():
                one.close()

    def _drop(self, side: str, *, reset: bool) -> None:
        pair = self.pairs[0]
        pair.silent = True
        sock = pair.sides[side]
        self._selector.unregister(sock)
        if reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        else:
            sock.shutdown(socket.SHUT_WR)

    def _serve(self) -> None:
        while not self._over:
            for key, _ in self._selector.select(0.01):
                with self._lock:
                    if key.data is None:
                        self._accept()
                    elif key.fd in self._selector.get_map():
                        self._pass(*key.data)

    def _accept(self) -> None:
        opener = self.listener.accept()[0]
        pair = Pair(opener, socket.create_connection(("127.0.0.1", self.target)))
        pair.silent = self.dead
        self.pairs.append(pair)
        for side, other in (("opened", "accepted"), ("accepted", "opened")):
            self._selector.register(pair.sides[side], selectors.EVENT_READ, (pair, side, other))

    def _pass(self, pair: Pair, side: str, other: str) -> None:
        try:
            data = pair.sides[side].recv(65536)
        except OSError as error:
            self._selector.unregister(pair.sides[side])
            if error.errno and not pair.silent:  # what one end gave up is given up towards the other
                sock = pair.sides[other]
                self._selector.unregister(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()
            return
        if not data:
            self._selector.unregister(pair.sides[side])
        elif pair.silent:
            pair.kept.append((pair.sides[other], data))
        else:
            pair.sides[other].sendall(data)


@contextmanager
def relay(target: int) -> Iterator[Relay]:
    """A relay to a port of 127.0.0.1."""
    one = Relay(target)
    try:
        yield one
    finally:
        one.close()
