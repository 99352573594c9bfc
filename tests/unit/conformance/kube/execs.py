# SPDX-License-Identifier: Apache-2.0
"""Commands and streams on the stand-in API server."""

from __future__ import annotations

import threading
from typing import Any

from conformance.kube import execute
from conformance.kube.client import Kube
from conformance.kube.streaming import ExecEnd, ExecStream


def run(kube: Kube, *argv: str, **more: Any) -> execute.ExecResult:
    return execute.run(kube, "n", "p", "c", argv or ("true",), **{"within": 5.0, **more})


class Listener:
    """Collects the output of a stream."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.ends: list[ExecEnd] = []
        self.changed = threading.Condition()

    def line(self, line: bytes) -> None:
        with self.changed:
            self.lines.append(line)
            self.changed.notify_all()

    def end(self, end: ExecEnd) -> None:
        with self.changed:
            self.ends.append(end)
            self.changed.notify_all()

    def wait(self, what: Any) -> None:
        with self.changed:
            assert self.changed.wait_for(what, 5)


def stream(kube: Kube, listener: Listener, silence: float = 5.0) -> ExecStream:
    return ExecStream(
        kube, "n", "p", "c", ["agent"], on_line=listener.line, on_end=listener.end, silence=silence
    )


def flood(size: int, piece: bytes) -> Any:
    def serve(channel: Any, _: Any) -> None:
        try:
            for _ in range(size // len(piece)):
                channel.send(1, piece)
            channel.status(0)
            channel.close()
        except OSError:
            pass

    return serve
