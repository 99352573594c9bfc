"""Felix: brings one node's data plane in line with the API while it runs, and leaves it as it is while it does not.

Policy goes out as differences, gathered for a moment so that a burst becomes one transaction, and is applied after the
delay that the profile or a fault asks for.  When the data plane refuses, everything is programmed anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field

from hybridlab.calico.acl_lists import AclLists, Lists
from hybridlab.calico.acls import Entry
from hybridlab.calico.felix_configuration import EXIT_STATUS, FelixSettings, effective, needs_restart
from hybridlab.calico.felix_faults import FelixFaults
from hybridlab.calico.policy import PolicyKey
from hybridlab.calico.render import renderer
from hybridlab.calico.routes import DEFAULT_PORT, node_routes, vxlan_spec
from hybridlab.calico.typha import Typha
from hybridlab.calico.windows_node import WindowsNode
from hybridlab.dataplane.contract import Dataplane, DataplaneError
from hybridlab.dataplane.model import EndpointProgram, NodeRoutes, PolicyUpdate, RemoteBlock, VxlanSpec
from hybridlab.profiles.machines import Machine
from hybridlab.profiles.model import Profile
from hybridlab.windows.hns import pod_mtu

logger = logging.getLogger(__name__)

Log = Callable[[str, str], None]
"""(level, message)."""

GATHER_SECONDS = 0.002
"""How long changes are gathered before they are programmed together."""
RETRY_SECONDS = 5.0
"""After the data plane refused; Felix' own on Windows."""
SETUP_PATIENCE_SECONDS = 0.5
"""How long a new Linux pod is held for its policy; longer than any node needs that is not slowed down on purpose."""


@dataclass(frozen=True)
class Rendered:
    """A program, and the sets it names."""

    program: EndpointProgram
    sets: frozenset[str]


@dataclass
class Programmed:
    """What the data plane has been sent, and still has while no Felix runs."""

    endpoints: dict[str, Rendered] = field(default_factory=dict)
    sets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    vxlan: VxlanSpec | None = None
    routes: NodeRoutes | None = None


@dataclass(frozen=True)
class _Due:
    """What has to be programmed."""

    update: PolicyUpdate
    lists: Lists
    """Windows: the ACL lists that HNS gets with it."""


class Felix:
    """The Felix of one node."""

    def __init__(  # noqa: PLR0917
        self,
        node: Machine,
        profile: Profile,
        typha: Typha,
        dataplane: Dataplane,
        log: Log,
        windows: WindowsNode | None = None,
        exits: Callable[[], None] = lambda: None,
    ) -> None:
        """``windows`` on a Windows node; ``exits`` is called when Felix cannot go on and must be started again."""
        self._node, self._profile, self._typha, self._dataplane, self._log = node, profile, typha, dataplane, log
        self._windows, self._exits = windows, exits
        self._settings = FelixSettings(values={})
        self._exiting = False
        timing = profile.timing
        own_delay = timing.windows_policy_delay_ms if node.os == "windows" else timing.linux_policy_delay_ms
        self._own_delay = own_delay / 1000
        self.faults = FelixFaults()
        self._lists = AclLists(node.address, profile.calico.version) if node.os == "windows" else None
        self._renderer = renderer(node.os, lambda message: log("WARNING", message))
        self._sent = Programmed()
        self._due_endpoints: set[str] = set()
        self._due_sets: set[str] = set()
        self._relabelled: set[str] = set()
        self._everything_due = True
        self._asked_for = False
        self._policy_due, self._routes_due = asyncio.Event(), asyncio.Event()
        self._delay_changed = asyncio.Event()
        self._queue: asyncio.Queue[tuple[float, _Due]] = asyncio.Queue()
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._rendered: dict[frozenset[PolicyKey], Rendered] = {}
        self._rendered_version = -1
        self._tasks: list[asyncio.Task[None]] = []
        typha.on_routing(self._routes_due.set)
        typha.on_felix_configuration(self._configuration_changed)
        if windows is not None:
            windows.hns.on_change(self._routes_due.set)

    @property
    def running(self) -> bool:
        """Started and not stopped."""
        return bool(self._tasks)

    @property
    def routed(self) -> bool:
        """The node's VXLAN device and routes are in place."""
        return self._sent.routes is not None

    @property
    def vni(self) -> int | None:
        """VNI of the node's VXLAN device as it was programmed last; None without device."""
        return None if self._sent.vxlan is None else self._sent.vxlan.vni

    @property
    def delay(self) -> float:
        """Seconds from computing a policy to applying it."""
        return self._own_delay + max(self.faults.delays.values(), default=0.0)

    @property
    def acls(self) -> Mapping[str, tuple[Entry, ...]]:
        """Pod uid to the ACL list last given to HNS, as Get-HnsEndpoint shows it; nothing on Linux."""
        return self._lists.shown() if self._lists else {}

    def set_fault_delay(self, fault: str, seconds: float) -> None:
        """Fault: apply policy this much later; what waits is applied at once when it goes back to 0."""
        if seconds:
            self.faults.delays[fault] = seconds
        else:
            self.faults.delays.pop(fault, None)
        self._delay_changed.set()

    def start_if_asked(self) -> None:
        """Start, if nothing but a fault kept it from that."""
        if self._asked_for:
            self.start()

    def start(self) -> None:
        """Program everything anew, then follow changes."""
        self._asked_for = True
        if self.running:
            return
        if self.faults.dead:
            self._log("ERROR", "Felix does not start")
            return
        self._log("INFO", "Felix starting up")
        self._settings = effective(self._typha.felix_configurations, self._node.name)
        self._exiting = False
        if self._windows is not None:
            self._windows.felix_started()
        self._typha.graph.subscribe(self._node.name, self)
        self._everything_due = True
        self._policy_due.set()
        self._routes_due.set()
        loops = {"policy": self._follow_policy, "apply": self._apply_policy, "routes": self._follow_routes}
        self._tasks = [
            asyncio.create_task(self._keep_running(loop), name=f"felix {self._node.name} {what}")
            for what, loop in loops.items()
        ]

    async def stop(self) -> None:
        """Stop; the data plane stays as it is, and what was still waiting is not applied."""
        self._asked_for = False
        tasks, self._tasks = self._tasks, []
        self._typha.graph.unsubscribe(self._node.name)
        if self._windows is not None:
            self._windows.felix_ended()
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        while not self._queue.empty():
            self._queue.get_nowait()
            self._queue.task_done()
        for uid in list(self._waiting):
            self._release(uid)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result
        self._log("INFO", "Felix exiting")

    def _configuration_changed(self) -> None:
        now = effective(self._typha.felix_configurations, self._node.name)
        if self.running and not self._exiting and needs_restart(self._settings, now, self._node.os):
            self._exiting = True
            self._log("WARNING", f"Datastore config changed, need to restart; exiting with status {EXIT_STATUS}")
            self._exits()

    def endpoint_due(self, uid: str) -> None:
        """The graph: this endpoint's policy has changed, or it came or went."""
        self._due_endpoints.add(uid)
        self._policy_due.set()

    def relabelled(self, uid: str) -> None:
        """The graph: this endpoint has other labels, which may mean nothing to any policy."""
        if self._lists and self._lists.every_update_replaces:
            self._relabelled.add(uid)
            self._policy_due.set()

    def endpoint_created(self, uid: str) -> None:
        """The CNI plugin has made this endpoint."""
        if self._lists:
            self._lists.created(uid)

    def endpoint_removed(self, uid: str) -> None:
        """The CNI plugin has removed this endpoint."""
        if self._lists:
            self._lists.removed(uid)

    def set_due(self, name: str) -> None:
        """The graph: this set's members have changed."""
        if name in self._sent.sets:
            self._due_sets.add(name)
            self._policy_due.set()

    async def endpoint_ready(self, uid: str) -> None:
        """Wait until an endpoint's policy is in place; not for long, and not at all when Felix is down or slow."""
        if not self.running or self.delay or uid in self._sent.endpoints:
            return
        ready = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(uid, []).append(ready)
        await asyncio.wait([ready], timeout=SETUP_PATIENCE_SECONDS)

    async def _keep_running(self, loop: Callable[[], Coroutine[None, None, None]]) -> None:
        """Start a loop again that failed in a way nobody foresaw: a silent Felix would look like policy that holds."""
        while True:
            try:
                await loop()
            except Exception as error:
                logger.exception("Felix of %s failed and starts again", self._node.name)
                self._log("ERROR", f"Felix failed and starts again in {RETRY_SECONDS:.0f}s: {error!r}")
                await asyncio.sleep(RETRY_SECONDS)
                self._sent.vxlan = self._sent.routes = None
                self._routes_due.set()
                self.start_over()

    # -- policy

    async def _follow_policy(self) -> None:
        while True:
            await self._policy_due.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._policy_due.clear()
            due = self._difference()
            if due is not None:
                self._queue.put_nowait((asyncio.get_running_loop().time(), due))
                if not self.delay:
                    await self._queue.join()

    def _difference(self) -> _Due | None:
        """What has to be sent, computed without giving way: one consistent state of the graph."""
        graph, node, sent = self._typha.graph, self._node.name, self._sent
        everything, due, due_sets = self._everything_due, self._due_endpoints, self._due_sets
        relabelled, self._relabelled = self._relabelled, set()
        self._everything_due, self._due_endpoints, self._due_sets = False, set(), set()
        known = tuple(sent.endpoints)
        if everything:
            due = due | set(graph.endpoints_on(node)) | set(known)
        endpoints: dict[str, EndpointProgram] = {}
        gone: list[str] = []
        for uid in due | relabelled:
            if graph.is_on(uid, node):
                rendered = self._render(graph.keys_for(uid))
                before = sent.endpoints.get(uid)
                if everything or before is None or before.program != rendered.program or uid in relabelled:
                    endpoints[uid] = rendered.program
                    sent.endpoints[uid] = rendered
            elif sent.endpoints.pop(uid, None) is not None:
                gone.append(uid)
                self.endpoint_removed(uid)
        needed = frozenset[str]().union(*{rendered.sets for rendered in sent.endpoints.values()})
        sets: dict[str, tuple[str, ...]] = {}
        for name in needed:
            if everything or name not in sent.sets or name in due_sets:
                members = graph.members(name)
                if everything or sent.sets.get(name) != members:
                    sets[name] = sent.sets[name] = members
        removed = tuple(name for name in sent.sets if name not in needed)
        for name in removed:
            del sent.sets[name]
        if not (endpoints or gone or sets or removed):
            return None
        held = known if self.faults.frozen else ()
        touched = {uid: r for uid, r in sent.endpoints.items() if uid in endpoints or not r.sets.isdisjoint(sets)}
        reprogrammed = {uid: rendered.program for uid, rendered in touched.items() if uid not in held}
        lists: Lists = {}
        reset = tuple(uid for uid in reprogrammed if uid in known) if self.faults.storms else ()
        if self._lists:
            anew = reprogrammed.keys() if everything else relabelled
            lists = self._lists.replaced(reprogrammed, sent.sets.__getitem__, anew)
            reset = tuple(lists)
        update = PolicyUpdate(
            sets=sets,
            removed_sets=removed,
            endpoints=endpoints,
            removed_endpoints=tuple(gone),
            reset=reset,
            held=held,
        )
        return _Due(update, lists)

    def _render(self, keys: frozenset[PolicyKey]) -> Rendered:
        """The program of endpoints to which exactly these policies apply; shared by all of them."""
        graph = self._typha.graph
        if self._rendered_version != graph.version:
            self._rendered, self._rendered_version = {}, graph.version
        rendered = self._rendered.get(keys)
        if rendered is None:
            program = self._renderer.endpoint(graph.tiers_for(keys))
            rendered = self._rendered[keys] = Rendered(program, program.named_sets())
        return rendered

    async def _apply_policy(self) -> None:
        while True:
            computed, due = await self._queue.get()
            try:
                await self._wait_delay(computed)
                await self._dataplane.update_policy(self._node.name, due.update)
            except DataplaneError as error:
                self._log("ERROR", f"Failed to program policy, will retry everything in {RETRY_SECONDS:.0f}s: {error}")
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self.start_over)
            else:
                for uid in due.update.endpoints:
                    self._release(uid)
                if self._lists:
                    await self._tell_reprogrammed(self._lists.give(due.lists))
            finally:
                self._queue.task_done()

    async def _tell_reprogrammed(self, endpoints: tuple[str, ...]) -> None:
        """Tell the faults that wait for it, which come and go meanwhile; one that fails is no failure of Felix'."""
        for fault in list(self.faults.on_reprogrammed) if endpoints else ():
            told = self.faults.on_reprogrammed.get(fault)
            if told is None:
                continue
            try:
                await told(endpoints)
            except Exception as error:
                logger.exception("Fault %s failed when Felix of %s had reprogrammed", fault, self._node.name)
                self._log("ERROR", f"Fault {fault} failed: {error!r}")

    async def _wait_delay(self, computed: float) -> None:
        """Wait until an update is old enough, by the delay that holds then."""
        loop = asyncio.get_running_loop()
        while (remaining := computed + self.delay - loop.time()) > 0:
            self._delay_changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._delay_changed.wait(), remaining)

    def start_over(self) -> None:
        """Program everything anew."""
        self._everything_due = True
        self._policy_due.set()

    def _release(self, uid: str) -> None:
        for ready in self._waiting.pop(uid, ()):
            if not ready.done():
                ready.set_result(None)

    # -- routes

    async def _follow_routes(self) -> None:
        while True:
            await self._routes_due.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._routes_due.clear()
            try:
                await self._program_routes()
            except DataplaneError as error:
                self._log("ERROR", f"Failed to program routes, will retry in {RETRY_SECONDS:.0f}s: {error}")
                self._sent.vxlan = self._sent.routes = None
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self._routes_due.set)

    async def _program_routes(self) -> None:
        facts, sent, name = self._typha.routing, self._sent, self._node.name
        vni = self._vni()
        spec = None if vni is None else vxlan_spec(facts, name, vni=vni, port=self._port(), mtu=self._mtu())
        if spec != sent.vxlan:
            sent.vxlan = sent.routes = None
            await self._dataplane.set_vxlan(name, spec)
            sent.vxlan = spec
            if spec is None and self._windows is not None:
                self._log("ERROR", "HNS network Calico is missing, no route to another node is in place")
            if spec is not None:
                self._log("INFO", f"VXLAN tunnel device configured: vni {spec.vni}, address {spec.tunnel_address}")
        routes, unknown = node_routes(facts, name, tunnel=spec is not None, vni=self._isolation_id())
        for cidr in unknown:
            self._log("WARNING", f"Received route without corresponding VTEP, will retry: {cidr}")
        if routes != sent.routes:
            sent.routes = None
            await self._dataplane.set_routes(name, routes)
            sent.routes = routes

    def _vni(self) -> int | None:
        """Linux: as FelixConfiguration said at Felix' start; Windows: the HNS network's VSID, None without network."""
        return self._settings.vni if self._windows is None else self._windows.hns.vsid

    def _isolation_id(self) -> int | None:
        """The VNI of what a Windows node sends, when it is not the VSID of its HNS network.

        Felix gives every remote route the VNI it was started with.  Whether Windows then still reaches Windows, where
        all have the old VSID, nobody has reported: the profile says.
        """
        if self._windows is None or self._profile.windows.windows_to_windows_with_new_vni == "holds":
            return None
        return None if self._windows.felix_vni == self._windows.hns.vsid else self._windows.felix_vni

    def remote_routes(self) -> list[RemoteBlock]:
        """The blocks of other nodes that are routed over the tunnel now."""
        return [] if self._sent.routes is None else list(self._sent.routes.remote_blocks)

    def _port(self) -> int:
        """Windows knows no other port than 4789."""
        return DEFAULT_PORT if self._windows is not None else self._settings.port

    def _mtu(self) -> int:
        network = self._profile.network
        if self._windows is not None:
            return pod_mtu(network.underlay_mtu, network.windows_mtu)
        return self._settings.mtu or pod_mtu(network.underlay_mtu, network.calico_mtu)
