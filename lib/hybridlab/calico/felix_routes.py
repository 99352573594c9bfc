"""Felix' routes: keeps one node's VXLAN device and routes in line with what the API and HNS say."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hybridlab.calico.felix_configuration import FelixSettings
from hybridlab.calico.felix_faults import FelixFaults, LevelLog
from hybridlab.calico.felix_queue import GATHER_SECONDS, RETRY_SECONDS
from hybridlab.calico.routes import DEFAULT_PORT, RoutingFacts, node_routes, vxlan_spec
from hybridlab.calico.windows_node import WindowsNode
from hybridlab.dataplane.contract import Dataplane, DataplaneError
from hybridlab.dataplane.model import NodeRoutes, RemoteBlock, VxlanSpec
from hybridlab.profiles.model import Profile
from hybridlab.windows.hns import pod_mtu


class RouteFollower:
    """Follows the routes of one node; what has been programmed outlives a Felix that stops."""

    def __init__(  # noqa: PLR0917
        self,
        node: str,
        profile: Profile,
        facts: RoutingFacts,
        dataplane: Dataplane,
        windows: WindowsNode | None,
        faults: FelixFaults,
        log: LevelLog,
    ) -> None:
        """``windows`` on a Windows node."""
        self._node, self._profile, self._facts, self._dataplane = node, profile, facts, dataplane
        self._windows, self._faults, self._log = windows, faults, log
        self._due, self._done = asyncio.Event(), asyncio.Event()
        self.settings = FelixSettings(values={})
        """What Felix read when it started last."""
        self.vxlan: VxlanSpec | None = None
        """The VXLAN device as it was programmed last; None without device."""
        self.routes: NodeRoutes | None = None
        """The routes as they were programmed last; None while they are not in place."""

    @property
    def remote_blocks(self) -> tuple[RemoteBlock, ...]:
        """The blocks of other nodes that are routed over the tunnel now."""
        return () if self.routes is None else self.routes.remote_blocks

    def due(self) -> None:
        """Something that routes depend on has changed."""
        self._done.clear()
        self._due.set()

    async def done(self) -> None:
        """Wait until everything that was due is programmed; for ever while Felix does not run."""
        await self._done.wait()

    def start_over(self) -> None:
        """Program everything anew."""
        self.vxlan = self.routes = None
        self.due()

    async def follow(self) -> None:
        """Program changes as they come up, for ever."""
        while True:
            await self._due.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._due.clear()
            try:
                await self._program()
            except DataplaneError as error:
                self._log("ERROR", f"Failed to program routes, will retry in {RETRY_SECONDS:.0f}s: {error}")
                self.vxlan = self.routes = None
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self.due)
            else:
                if not self._due.is_set():
                    self._done.set()

    async def _program(self) -> None:
        vni = self._vni()
        device = {"port": self._port(), "mtu": self._mtu()}
        spec = None if vni is None else vxlan_spec(self._facts, self._node, vni=vni, **device)
        spec = None if spec is None else self._faults.device(spec)
        if spec != self.vxlan:
            self.vxlan = self.routes = None
            await self._dataplane.set_vxlan(self._node, spec)
            self.vxlan = spec
            if spec is None and self._windows is not None:
                self._log("ERROR", "HNS network Calico is missing, no route to another node is in place")
            if spec is not None:
                self._log("INFO", f"VXLAN tunnel device configured: vni {spec.vni}, address {spec.tunnel_address}")
        routes, unknown = node_routes(self._facts, self._node, tunnel=spec is not None, vni=self._isolation_id())
        for cidr in unknown:
            self._log("WARNING", f"Received route without corresponding VTEP, will retry: {cidr}")
        routes = replace(routes, remote_blocks=tuple(map(self._faults.laid, routes.remote_blocks)))
        if routes != self.routes:
            self.routes = None
            await self._dataplane.set_routes(self._node, routes)
            self.routes = routes

    def _vni(self) -> int | None:
        """Linux: as FelixConfiguration said at Felix' start; Windows: the HNS network's VSID, None without network."""
        return self.settings.vni if self._windows is None else self._windows.hns.vsid

    def _isolation_id(self) -> int | None:
        """The VNI of what a Windows node sends, when it is not the VSID of its HNS network.

        Felix gives every remote route the VNI it was started with.  Whether Windows then still reaches Windows, where
        all have the old VSID, nobody has reported: the profile says.
        """
        if self._windows is None or self._profile.windows.windows_to_windows_with_new_vni == "holds":
            return None
        return None if self._windows.felix_vni == self._windows.hns.vsid else self._windows.felix_vni

    def _port(self) -> int:
        """Windows knows no other port than 4789."""
        return DEFAULT_PORT if self._windows is not None else self.settings.port

    def _mtu(self) -> int:
        network = self._profile.network
        if self._windows is not None:
            return pod_mtu(network.underlay_mtu, network.windows_mtu)
        return self.settings.mtu or pod_mtu(network.underlay_mtu, network.calico_mtu)
