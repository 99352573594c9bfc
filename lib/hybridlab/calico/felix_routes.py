# SPDX-License-Identifier: Apache-2.0
"""Felix' routes: keeps one node's tunnel and routes equal to those that the cluster's plane
(``networks.contract.plane``) computes from the API and HNS."""

import asyncio

from hybridlab.calico.felix_configuration import FelixSettings
from hybridlab.calico.felix_faults import FelixFaults, LevelLog
from hybridlab.calico.felix_queue import GATHER_SECONDS, RETRY_SECONDS
from hybridlab.dataplane.contract import Dataplane, DataplaneError
from hybridlab.dataplane.model import NodeRoutes, Tunnel
from hybridlab.networks.contract.plane import Plane
from hybridlab.networks.contract.routing import RoutingFacts
from hybridlab.networks.contract.windows_node import WindowsNode


class RouteFollower:
    """Keeps the routes of a node up to date; programmed routes stay when Felix stops."""

    def __init__(  # noqa: PLR0917
        self,
        node: str,
        plane: Plane,
        facts: RoutingFacts,
        dataplane: Dataplane,
        windows: WindowsNode | None,
        faults: FelixFaults,
        log: LevelLog,
    ) -> None:
        """Set up the follower. ``windows``: the Windows node; None on a Linux node."""
        self._node = node
        self._plane = plane
        self._facts = facts
        self._dataplane = dataplane
        self._windows = windows
        self._faults = faults
        self._log = log
        self._due = asyncio.Event()
        self._done = asyncio.Event()
        self.settings: FelixSettings = {}
        """The settings that Felix read at its last start."""
        self.tunnel: Tunnel | None = None
        """The tunnel as it was last programmed; None: the node has no tunnel."""
        self.routes: NodeRoutes | None = None
        """The routes as they were last programmed; None while they are not in place."""

    def due(self) -> None:
        """Mark that something on which routes depend has changed."""
        self._done.clear()
        self._due.set()

    async def done(self) -> None:
        """Wait until all pending changes are programmed. While Felix does not run, this waits for
        ever."""
        await self._done.wait()

    def start_over(self) -> None:
        """Program everything anew."""
        self.tunnel = self.routes = None
        self.due()

    async def follow(self) -> None:
        """Program changes as they arise, for ever."""
        while True:
            await self._due.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._due.clear()
            try:
                await self._program()
            except DataplaneError as error:
                self._log(
                    "ERROR",
                    f"Failed to program routes, will retry in {RETRY_SECONDS:.0f}s: {error}",
                )
                self.tunnel = self.routes = None
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self.due)
            else:
                if not self._due.is_set():
                    self._done.set()

    async def _program(self) -> None:
        program = self._plane.program(self._node, self._facts, self.settings, self._windows)
        tunnel = self._faults.tunnel(program.tunnel)
        if tunnel != self.tunnel:
            self.tunnel = self.routes = None
            await self._dataplane.set_tunnel(self._node, tunnel)
            self.tunnel = tunnel
            if tunnel is not None:
                text = f"identifier {tunnel.identifier}, address {tunnel.address}"
                self._log("INFO", f"Tunnel device {tunnel.device} configured: {text}")
            elif program.problem:
                self._log("ERROR", program.problem)
        for cidr in program.unknown:
            self._log(
                "WARNING",
                f"Received route without corresponding tunnel endpoint, will retry: {cidr}",
            )
        routes = self._faults.routes(program.routes)
        if routes != self.routes:
            self.routes = None
            await self._dataplane.set_routes(self._node, routes)
            self.routes = routes
