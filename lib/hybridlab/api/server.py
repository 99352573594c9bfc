# SPDX-License-Identifier: Apache-2.0
"""The API server: the API of a cluster over HTTPS on a socket that the caller has opened."""

import asyncio
import socket
import ssl
from functools import partial
from typing import Any

from hybridlab.api.audit import Audit
from hybridlab.api.client import LocalClient
from hybridlab.api.contract import NodeAgent
from hybridlab.api.core import Core, Settings
from hybridlab.api.faulty_agent import FaultyAgent
from hybridlab.api.http.aio import web
from hybridlab.api.http.handler import AgentOf, Handler
from hybridlab.api.http.replies import BODY_LIMIT
from hybridlab.api.interference import Interference
from hybridlab.api.requests import MASTERS

_IDLE_SECONDS = 300.0
"""Seconds for which an idle connection is kept."""
_SHUTDOWN_SECONDS = 0.2
"""Seconds for requests under way to end when the server stops."""


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    """Make a request as aiohttp does, with the real server's limit for bodies."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT
    )


class _Cut(asyncio.Protocol):
    """A connection that is cut as soon as it is established."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # TCP sockets have this type
        transport.abort()


class _Server(web.Server):
    """A server that cuts connections while a fault makes it unreachable."""

    def __init__(self, interference: Interference, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._interference = interference
        interference.on_going_away = self.cut

    def __call__(self) -> Any:
        return _Cut() if self._interference.away() else super().__call__()

    def cut(self) -> None:
        for connection in self.connections:
            if connection.transport is not None:
                connection.transport.abort()


class ApiServer:
    """Serves one cluster; ``listener`` is bound and listening (or bound only), ``tls`` is its
    certificate.

    ``agent_of`` finds the kubelet of a node by name; if it returns None, exec and logs are answered
    with an error.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        agent_of: AgentOf = lambda node: None,
        interference: Interference | None = None,
    ) -> None:
        self.core = Core(settings)
        self.interference = interference or Interference()
        self.core.operations.admission = self.interference.admission
        host, port = listener.getsockname()[:2]
        self.url = f"{'https' if tls else 'http'}://{host}:{port}"
        agents = partial(self._agent, agent_of)
        self._handler = Handler(self.core, agents, self.interference, f"{host}:{port}")
        self._listener = listener
        self._tls = tls
        self._runner: web.ServerRunner | None = None

    def _agent(self, agent_of: AgentOf, node: str) -> NodeAgent | None:
        """Return a node's kubelet, wrapped so that the exec faults apply."""
        agent = agent_of(node)
        return None if agent is None else FaultyAgent(agent, self.interference.execs)

    @property
    def audit(self) -> Audit:
        """Return the record of requests over HTTPS since the start."""
        return self._handler.audit

    def client(self, name: str, groups: tuple[str, ...] = (MASTERS,)) -> LocalClient:
        """Return an in-process client for a component."""
        return self.core.client(name, groups)

    async def start(self) -> None:
        server = _Server(
            self.interference,
            self._handler,
            request_factory=_request,
            access_log=None,
            keepalive_timeout=_IDLE_SECONDS,
            handler_cancellation=True,
            max_line_size=65536,
            max_field_size=65536,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        site = web.SockSite(self._runner, self._listener, ssl_context=self._tls, backlog=1024)
        await site.start()

    async def stop(self) -> None:
        """End watches and execs, close connections and the socket."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
