# SPDX-License-Identifier: Apache-2.0
"""The interfaces of the API server: for in-process components, and for the server's requests to
nodes.

Controllers, Felix, kubelets and kube-proxy use the API only through :class:`Client`; the server
reaches pods only through :class:`NodeAgent`. Both are protocols so that each side can be tested
without the other. :func:`quantity` reads the amounts that objects contain.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from hybridlab.api.quantities import quantity as quantity  # noqa: PLC0414 - it is offered here

Obj = dict[str, Any]
"""A Kubernetes object. Objects that a client returns are shared: copy them before changing them."""


class ApiError(Exception):
    """A request that the API server refused; ``status`` is the whole ``Status`` object of the
    answer."""

    def __init__(
        self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.details: Mapping[str, Any] = details or {}


@dataclass(frozen=True)
class Event:
    """An event that a watch delivers."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Obj


class Client(Protocol):
    """The API for a component of the cluster: same store, same checks as over HTTPS, without the
    socket.

    ``resource`` is ``plural`` for core/v1 and ``plural.group`` otherwise (``pods``,
    ``deployments.apps``, ``networkpolicies.projectcalico.org``); the served version of the group
    is used. Every call raises :class:`ApiError` if the server refuses it.
    """

    async def get(self, resource: str, name: str, namespace: str | None = None) -> Obj: ...

    async def list(
        self, resource: str, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> tuple[list[Obj], str]:
        """Return objects (namespace None: all namespaces) and the resourceVersion of the list."""

    async def create(self, resource: str, obj: Obj, namespace: str | None = None) -> Obj: ...

    async def replace(
        self, resource: str, obj: Obj, namespace: str | None = None, *, subresource: str = ""
    ) -> Obj: ...

    async def patch(
        self,
        resource: str,
        name: str,
        patch: Obj | Sequence[Any],
        namespace: str | None = None,
        *,
        kind: Literal["merge", "json", "strategic"] = "merge",
        subresource: str = "",
    ) -> Obj: ...

    async def delete(
        self,
        resource: str,
        name: str,
        namespace: str | None = None,
        *,
        grace_period_seconds: int | None = None,
        uid: str | None = None,
    ) -> None: ...

    def watch(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        since: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[Event]:
        """Yield events after ``since``, without an end; raise ApiError 410 if ``since`` is too
        old."""


class ChannelWriter(Protocol):
    """The destination of a command's output: a WebSocket channel."""

    async def send(self, data: bytes) -> None: ...


class Input(Protocol):
    """The source of a command's input; ``asyncio.StreamReader`` fits."""

    async def read(self, size: int = -1, /) -> bytes:
        """Return at most ``size`` bytes; empty at the end of the input."""


@dataclass(frozen=True, kw_only=True)
class Streams:
    """A command's input and outputs; ``tty``: the command has a terminal."""

    stdin: Input | None
    stdout: ChannelWriter
    stderr: ChannelWriter
    tty: bool = False


class StreamCut(Exception):
    """The connection to the node broke while a command ran, so the command's end is unknown."""


@dataclass(frozen=True)
class ExecOutcome:
    """The end of a command. ``start_error``: the real runtime's message, if the command never
    started.

    If ``exit_code`` and ``start_error`` are None, the end is unknown.
    """

    exit_code: int | None
    start_error: str | None = None


class NodeAgent(Protocol):
    """The requests of the API server to a pod's node (the kubelet's side of exec, attach and
    logs)."""

    async def exec(
        self, pod: Obj, container: str, argv: tuple[str, ...], streams: Streams
    ) -> ExecOutcome:
        """Run ``argv``; return when the command has ended and all its output is sent.

        Cancelling this call kills the command.

        Raise StreamCut if the node's connection breaks.
        """

    def logs(
        self,
        pod: Obj,
        container: str,
        *,
        follow: bool,
        previous: bool,
        tail_lines: int | None,
        since_seconds: int | None,
        timestamps: bool,
        limit_bytes: int | None,
    ) -> AsyncIterator[bytes]: ...
