# SPDX-License-Identifier: Apache-2.0
"""Applets, the emulated commands inside labd: a coroutine with streams, sockets created in its pod,
and an exit status.

An applet never touches labd's own network namespace: every socket comes from :class:`Net`.  Images
name their applets in the image table; a command that is not in the table gets ``not emulated: ...``
with exit status 1.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class Net(Protocol):
    """Sockets that are created in the network namespace of one pod or node, and its resolver
    settings."""

    hostname: str
    address: str
    """The pod's address (the node's for hostNetwork)."""
    nameservers: Sequence[str]
    searches: Sequence[str]
    resolver_options: Sequence[str]
    etc_hosts: str
    """The content of the hosts file that the kubelet gives the pod; empty: none."""

    def socket(
        self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, proto: int = 0
    ) -> socket.socket:
        """Return a non-blocking, close-on-exec socket."""

    async def resolve(self, name: str, *, timeout: float = 5.0) -> list[str]:  # noqa: ASYNC109 - a resolver's own limit
        """Return the A records of a name according to this pod's resolver settings, through the
        pod's own sockets.

        Raise ``applets.dns.NameNotFound`` or ``applets.dns.ResolverSilent`` (defined with the
        resolver).
        """


class Output(Protocol):
    """Standard output or error of an applet."""

    async def write(self, data: bytes) -> None: ...


class Files(Protocol):
    """The container's file system for an applet."""

    def read(self, path: str) -> bytes:
        """Return a file's content. Raise FileNotFoundError."""

    def write(self, path: str, data: bytes) -> None: ...


class HostProblem(Exception):
    """An operation that a host cannot do; ``kind`` is the kind of error."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Host(Protocol):
    """The machine on which a container runs."""

    async def ask(self, question: str, arguments: Mapping[str, object]) -> object:
        """Return the machine's answer, as JSON. Raise :class:`HostProblem`."""


@dataclass
class Process:
    """The environment of a running applet."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    net: Net
    files: Files
    stdin: asyncio.StreamReader
    """Standard input; at end-of-file from the beginning if the caller sends nothing."""
    stdout: Output
    stderr: Output
    settings: Mapping[str, float | str | int]
    """The lab's settings for applets (``powershell_start_ms`` ...), by name."""
    host: Host | None = None
    """The machine, for containers on Linux and for HostProcess containers on Windows; else None."""
    terminated: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the applet is a container's main command and is requested to end."""
    outlives_term: bool = False
    """True: after ``terminated`` is set, the applet continues until it ends by itself, or until the
    container's grace period is over and the applet is killed."""


Applet = Callable[[Process], Awaitable[int]]
"""Runs until its command ends, and returns the exit status. An applet that is killed is cancelled:
it must then close every resource that it opened."""
