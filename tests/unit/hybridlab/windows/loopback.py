# SPDX-License-Identifier: Apache-2.0
"""A pod's network and streams on loopback, for applets, which notice no difference."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from hybridlab.runtime.applet import Process


@dataclass
class LoopbackNet:
    """Sockets of this machine; only 127.0.0.0/8 is ever used."""

    hostname: str = "windows-pod"
    address: str = "127.0.0.1"
    nameservers: Sequence[str] = ()
    searches: Sequence[str] = ()
    resolver_options: Sequence[str] = ("ndots:5",)
    etc_hosts: str = ""

    def socket(
        self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, proto: int = 0
    ) -> socket.socket:
        made = socket.socket(family, kind, proto)
        made.setblocking(False)
        return made

    async def resolve(self, name: str, *, timeout: float = 5.0) -> list[str]:  # noqa: ASYNC109 - as Net has it
        raise AssertionError(
            f"the probe programs resolve by themselves, not {name} through the pod's resolver library"
        )


class Lines:
    """Standard output that tests read line by line."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader(limit=1 << 24)
        self.closed = False
        """True once nobody reads the output any more."""

    async def write(self, data: bytes) -> None:
        if self.closed:
            raise BrokenPipeError
        self.reader.feed_data(data)


@dataclass
class Script:
    """A file system with a single script."""

    content: bytes
    written: dict[str, bytes] = field(default_factory=dict)

    def read(self, path: str) -> bytes:
        return self.content

    def write(self, path: str, data: bytes) -> None:
        self.written[path] = data


def process(**settings: float | str) -> tuple[Process, Lines]:
    """Return a process with an open standard input, and its output."""
    out = Lines()
    env = {"POD_NAMESPACE": "ns", "POD_NAME": "pod", "NODE_NAME": "node"}
    made = Process(
        argv=("powershell.exe",), env=env, net=LoopbackNet(), files=Script(b""), stdin=asyncio.StreamReader(),
        stdout=out, stderr=Lines(), settings=settings,
    )  # fmt: skip
    return made, out
