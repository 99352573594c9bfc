# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the prober's tests with real agents: execs of a fake API server run the Linux
programs on this machine."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.conformance.probe.conftest import (
    AGENT,
    Agents,
    api,
    closed,
    fakes_status,
    kube,
    listening,
    make,
    prober,
)

__all__ = ["api", "closed", "fakes_status", "kube", "listening", "make", "prober"]


class RealAgents(Agents):
    """The execs of the fake API: each exec runs the real agent, unless ``script`` contains
    something else for it."""

    def otherwise(self, channel: Any, query: dict[str, list[str]]) -> None:
        self.real(channel, query)

    def real(self, channel: Any, query: Any, argv: tuple[str, ...] = ()) -> None:
        asked = AGENT.with_name(Path((query or {}).get("command", [""])[-1]).name)
        program = asked if asked.is_file() and asked.suffix == ".py" else AGENT
        command = [sys.executable, "-I", "-S", "-u", str(program), *argv]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        ) as process:
            assert process.stdin
            assert process.stdout
            said = process.stdout

            def pump() -> None:
                with contextlib.suppress(OSError):  # the client has cut the connection
                    while data := said.read(65536):
                        channel.send(1, data)

            reader = threading.Thread(target=pump, daemon=True)
            reader.start()
            while (frame := channel.receive()) is not None and frame[0] == 0:
                process.stdin.write(frame[1])
            process.stdin.close()
            reader.join(5)
            channel.status(process.wait(5))
            channel.close()


@pytest.fixture
def agents(api: Any) -> RealAgents:
    """Return the execs of the fake API server."""
    return RealAgents(api)


@pytest.fixture
def silent() -> Iterator[int]:
    """A UDP port that takes datagrams and never answers."""
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        yield one.getsockname()[1]
