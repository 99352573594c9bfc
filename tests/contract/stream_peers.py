# SPDX-License-Identifier: Apache-2.0
"""Peers and listeners of stream agents on loopback."""

from __future__ import annotations

import socket
import time
from typing import Any

from tests.contract.programs import PATIENT

SLOWER = {"every_ms": 100, "stall_ms": 60_000, "give_up_ms": 20_000}
"""Times with which no end stalls or gives up on a busy machine."""


def peer() -> tuple[socket.socket, int]:
    one = socket.create_server(("127.0.0.1", 0), backlog=512)
    return one, one.getsockname()[1]


def opens(streamer: Any, port: int, name: str = "a", **more: Any) -> None:
    streamer.say(
        {
            "type": "stream-open",
            "batch": name,
            "stream": name,
            "host": "127.0.0.1",
            "port": port,
            **SLOWER,
            **more,
        }
    )


def listens(streamer: Any, **more: Any) -> int:
    return int(streamer.ask("stream-listen", **{"port": 0, **PATIENT, **more})["port"])


def report(streamer: Any, name: str = "a") -> dict[str, Any]:
    ends: list[dict[str, Any]] = streamer.ask("stream-report", stream=name)["ends"]
    (end,) = ends
    return end


def settles(streamer: Any, verdict: str, name: str = "a", within: float = 60) -> dict[str, Any]:
    deadline = time.monotonic() + within
    while True:
        ends: list[dict[str, Any]] = streamer.ask("stream-report", stream=name)["ends"]
        if ends and ends[0]["verdict"] == verdict:
            return ends[0]
        assert time.monotonic() < deadline, ends
        time.sleep(0.02)
