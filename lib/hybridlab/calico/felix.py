# SPDX-License-Identifier: Apache-2.0
"""Felix: programs one node's data plane from the API while Felix runs; while Felix is stopped, the
data plane stays unchanged.

This module starts and stops Felix, and ends it after a change of FelixConfiguration.
``felix_policy`` computes changes, ``felix_queue`` sends them to the data plane, and
``felix_routes`` sets routes.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping

from hybridlab.calico.acl_lists import AclLists
from hybridlab.calico.felix_configuration import EXIT_STATUS, effective, needs_restart
from hybridlab.calico.felix_faults import FelixFaults, LevelLog
from hybridlab.calico.felix_queue import RETRY_SECONDS, PolicyQueue
from hybridlab.calico.felix_routes import RouteFollower
from hybridlab.calico.typha import Typha
from hybridlab.dataplane.contract import Dataplane
from hybridlab.networks.contract.plane import Plane
from hybridlab.networks.contract.windows_node import WindowsNode
from hybridlab.policy.acls import Entry
from hybridlab.policy.flattener import FelixPanic
from hybridlab.policy.release import Release
from hybridlab.profiles.machines import Machine
from hybridlab.profiles.model import Profile

logger = logging.getLogger(__name__)


class Felix:
    """The Felix of a node."""

    def __init__(  # noqa: PLR0917
        self,
        node: Machine,
        profile: Profile,
        plane: Plane,
        typha: Typha,
        dataplane: Dataplane,
        log: LevelLog,
        windows: WindowsNode | None = None,
        exits: Callable[[], None] = lambda: None,
    ) -> None:
        """Set up a Felix. ``windows`` is set on a Windows node; ``exits`` is called when Felix ends
        by itself and must be started again."""
        self._node = node
        self._typha = typha
        self._log = log
        self._windows = windows
        self._exits = exits
        self._ignored = plane.felix_ignores(node.os)
        self._exiting = False
        self._asked_for = False
        self._tasks: list[asyncio.Task[None]] = []
        timing = profile.timing
        delay = (
            timing.windows_policy_delay_ms if node.os == "windows" else timing.linux_policy_delay_ms
        )
        self.faults = FelixFaults(node.name, log)
        self._lists = AclLists(profile.calico.on("windows")) if node.os == "windows" else None
        release = Release(profile.calico.on(node.os), profile.calico.defects)
        self.queue = PolicyQueue(
            node.name,
            typha.graph,
            release,
            dataplane,
            self._lists,
            self.faults,
            log,
            delay / 1000,
            lambda: plane.host_addresses(node, windows),
        )
        self.routing = RouteFollower(
            node.name, plane, typha.routing, dataplane, windows, self.faults, log
        )
        typha.on_routing(self.routing.due)
        typha.on_felix_configuration(self._configuration_changed)
        if windows is not None:
            windows.hns.on_change(self.routing.due)

    @property
    def running(self) -> bool:
        """Return whether Felix has been started and not stopped since."""
        return bool(self._tasks)

    @property
    def acls(self) -> Mapping[str, tuple[Entry, ...]]:
        """Return the ACL list that HNS last received for each pod's uid, as Get-HnsEndpoint shows
        it; return an empty mapping on Linux."""
        return self.faults.acls(self._lists.shown()) if self._lists else {}

    def start_if_asked(self) -> None:
        """Start Felix, if only a fault prevented its start."""
        if self._asked_for:
            self.start()

    def start(self) -> None:
        """Start Felix: program everything anew, then follow changes."""
        self._asked_for = True
        if self.running:
            return
        if not self.faults.starts:
            self._log("ERROR", "Felix does not start")
            return
        self._log("INFO", "Felix starting up")
        self.routing.settings = effective(self._typha.felix_configurations, self._node.name)
        self._exiting = False
        self.faults.lives(True)
        if self._windows is not None:
            self._windows.felix_started()
        self._typha.graph.subscribe(self._node.name, self.queue.policy)
        self._read_policy()
        self.routing.due()
        loops = {
            "policy": self.queue.follow,
            "apply": self.queue.apply,
            "routes": self.routing.follow,
        }
        self._tasks = [
            asyncio.create_task(self._keep_running(loop), name=f"felix {self._node.name} {what}")
            for what, loop in loops.items()
        ]

    async def stop(self) -> None:
        """Stop Felix; the data plane stays as it is, and pending changes are not applied."""
        self._asked_for = False
        tasks = self._tasks
        self._tasks = []
        self._typha.graph.unsubscribe(self._node.name)
        if self._windows is not None:
            self._windows.felix_ended()
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        self.queue.drop()
        self.faults.lives(False)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result
        self._log("INFO", "Felix exiting")

    def start_over(self) -> None:
        """Program all policy anew."""
        self.queue.policy.everything_due()

    def endpoint_created(self, uid: str) -> None:
        """Record that the CNI plugin has made this endpoint."""
        if self._lists:
            self._lists.created(uid)

    def endpoint_removed(self, uid: str) -> None:
        """Record that the CNI plugin has removed this endpoint."""
        if self._lists:
            self._lists.removed(uid)

    async def endpoint_ready(self, uid: str) -> None:
        """Wait for a short time until an endpoint's policy is in place; do not wait if Felix is
        down or slow."""
        if self.running:
            await self.queue.ready(uid)

    def _read_policy(self) -> None:
        """Program all policy. If a fault makes Felix forgetful, skip endpoints that were programmed
        before."""
        if not self.faults.forgetful:
            self.queue.policy.everything_due()
            return
        for uid in self._typha.graph.endpoints_on(self._node.name):
            if uid not in self.queue.policy:
                self.queue.policy.endpoint_due(uid)

    def _configuration_changed(self) -> None:
        now = effective(self._typha.felix_configurations, self._node.name)
        if (
            self.running
            and not self._exiting
            and needs_restart(self.routing.settings, now, self._ignored)
        ):
            self._exiting = True
            self._log(
                "WARNING",
                f"Datastore config changed, need to restart; exiting with status {EXIT_STATUS}",
            )
            self._exits()

    def _panicked(self, panic: FelixPanic) -> None:
        """End Felix after a panic. Its pod starts Felix again, which panics again as long as the
        policies exist."""
        self._log("PANIC", f"{panic}")
        if not self._exiting:
            self._exiting = True
            self._exits()

    async def _keep_running(self, loop: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run a loop, and start it again after an unexpected failure. Otherwise Felix would program
        nothing, and outdated policy would look like policy in force."""
        while True:
            try:
                await loop()
            except FelixPanic as panic:
                self._panicked(panic)
                return
            except Exception as error:
                logger.exception("Felix of %s failed and starts again", self._node.name)
                self._log(
                    "ERROR", f"Felix failed and starts again in {RETRY_SECONDS:.0f}s: {error!r}"
                )
                await asyncio.sleep(RETRY_SECONDS)
                self.routing.start_over()
                self.start_over()
