# SPDX-License-Identifier: Apache-2.0
"""A long-lived command in a pod: lines are sent and received until either side ends it.

Each stream has one thread that owns its socket, because two threads may not read and write a TLS
connection at once. Callers pass lines to :meth:`ExecStream.send`; received lines are passed to the
callbacks from the stream's thread.
"""

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.kube import answers, channels
from conformance.kube.client import Kube
from conformance.kube.refused import describe
from conformance.kube.transcript import ExecRecord, Transcript, forget

KEEP = 65536
"""The number of bytes that the transcript keeps of the end of each output stream."""


@dataclass(frozen=True)
class ExecEnd:
    """The end of a stream. ``exit_code`` is None if no status arrived. ``problem``: the fault;
    empty if there was none."""

    exit_code: int | None
    problem: str
    stderr: str


class ExecStream:
    """A running command. ``on_line`` receives each complete line of standard output, without its
    line ending. ``on_end`` receives the end of the stream.

    Silence (no byte and no pong) for ``silence`` seconds counts as a dead connection. A WebSocket
    ping is sent when a third of this time has passed, so that an idle connection stays alive and
    load balancers do not cut it (usually at 300 s).
    """

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        pod: str,
        container: str,
        argv: Sequence[str],
        *,
        on_line: Callable[[bytes], None],
        on_end: Callable[[ExecEnd], None],
        silence: float,
        transcript: Transcript = forget,
    ) -> None:
        """Open the exec. Raise ExecBroken if it cannot be opened."""
        kube.changes_something(f"run a command in {namespace}/{pod}")
        self.where = (namespace, pod, container)
        self.argv = tuple(argv)
        self._on_line = on_line
        self._on_end = on_end
        self._transcript = transcript
        self._silence = silence
        self._begin = time.monotonic()
        self._at = time.time()
        self._queue: deque[bytes | None] = deque()
        self._lines = answers.Lines("a line of the command's output")
        self._kept = {
            channels.STDOUT: bytearray(),
            channels.STDERR: bytearray(),
            channels.ERROR: bytearray(),
        }
        self._closing = False
        self._pipe = threading.Lock()
        self._finished = threading.Event()
        self._channel: Any = channels.connect(
            kube, namespace, pod, container, argv, stdin=True, within=kube.timings.exec_connect
        )
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(
            target=self._serve, name=f"exec {namespace}/{pod}", daemon=True
        )
        self._thread.start()

    def send(self, line: bytes) -> None:
        """Queue a line for the command's standard input; nothing happens if the stream has
        ended."""
        self._queue.append(line + b"\n")
        self._wake()

    def close(self, within: float = 2.0) -> None:
        """End standard input, give the command up to ``within`` seconds to end by itself, then cut
        the connection. Idempotent."""
        if not self._finished.is_set():
            self._queue.append(None)
            self._wake()
            if not self._finished.wait(within):
                self._closing = True
                self._wake()
        self._thread.join(within)

    @property
    def ended(self) -> bool:
        return self._finished.is_set()

    @property
    def unfinished(self) -> bytes:
        """Return the received part of an incomplete line."""
        return bytes(self._lines.unfinished)

    def _wake(self) -> None:
        with self._pipe:
            if self._wake_write >= 0:
                os.write(self._wake_write, b"x")

    def _serve(self) -> None:
        problem = ""
        try:
            problem = self._loop()
        except answers.TooMuch as error:
            problem = str(error)
        except Exception as error:  # the caller must learn of every end of the thread
            problem = f"the connection broke: {describe(error)}"
        finally:
            self._channel.shutdown()
            code, lost = channels.exit_status(bytes(self._kept[channels.ERROR]))
            problem = "" if code is not None or self._closing else (problem or lost)
            out = bytes(self._kept[channels.STDOUT])
            err = bytes(self._kept[channels.STDERR])
            namespace, pod, container = self.where
            self._finished.set()
            self._transcript(
                ExecRecord(
                    at=self._at,
                    seconds=time.monotonic() - self._begin,
                    namespace=namespace,
                    pod=pod,
                    container=container,
                    argv=self.argv,
                    exit_code=code,
                    stdout=out,
                    stderr=err,
                    problem=problem,
                )
            )
            self._on_end(ExecEnd(code, problem, err.decode(errors="backslashreplace")))
            with self._pipe:
                os.close(self._wake_read)
                os.close(self._wake_write)
                self._wake_write = -1

    def _loop(self) -> str:
        import websocket  # imported only to run something in a pod

        sock = self._channel.sock
        self._channel.settimeout(self._silence)
        received = pinged = time.monotonic()
        while not self._closing:
            pending = getattr(sock, "pending", lambda: 0)()
            ready = (
                [sock]
                if pending
                else select.select([sock, self._wake_read], [], [], self._silence / 3)[0]
            )
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
            while self._queue:
                line = self._queue.popleft()
                if line is None:
                    channels.close_stdin(self._channel)
                else:
                    channels.send(self._channel, line)
            now = time.monotonic()
            if sock not in ready:
                if now - received > self._silence:
                    return f"nothing was received for {now - received:.0f} s"
                if now - pinged > self._silence / 3:
                    self._channel.ping()
                    pinged = now
                continue
            try:
                operation, data = self._channel.recv_data(control_frame=True)
            except websocket.WebSocketConnectionClosedException:
                return "the connection was cut"
            received = time.monotonic()
            self._channel.received = 0
            if operation == websocket.ABNF.OPCODE_CLOSE:
                return ""
            if operation == websocket.ABNF.OPCODE_BINARY and data:
                self._take(data[0], data[1:])
        return ""

    def _take(self, number: int, data: bytes) -> None:
        if number not in self._kept:
            return
        kept = self._kept[number]
        kept += data
        del kept[:-KEEP]
        if number == channels.STDOUT:
            for line in self._lines.add(data):
                self._on_line(line)
