# SPDX-License-Identifier: Apache-2.0
"""Sends Felix' policy to the data plane. Changes are gathered for a moment, so that a burst becomes
one transaction. They are applied after the delay of the profile or of a fault. If the data plane
refuses a transaction, everything is sent again."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from hybridlab.calico.acl_lists import AclLists
from hybridlab.calico.felix_faults import FelixFaults, LevelLog
from hybridlab.calico.felix_policy import NodePolicy, PolicyDifference, PolicySource
from hybridlab.calico.felix_windows_policy import WindowsNodePolicy
from hybridlab.dataplane.contract import Dataplane, DataplaneError
from hybridlab.policy.release import Release
from hybridlab.policy.resolve import Graph

GATHER_SECONDS = 0.002
"""Seconds for which changes are gathered before they are programmed together."""
RETRY_SECONDS = 5.0
"""The pause, in seconds, after the data plane refused a transaction; Felix itself waits as long on
Windows."""
SETUP_PATIENCE_SECONDS = 0.5
"""The longest time, in seconds, for which the start of a new Linux pod waits for its policy. Unless
policy is delayed on purpose, no node needs this long."""


class PolicyQueue:
    """The queue of a node."""

    def __init__(  # noqa: PLR0917
        self,
        node: str,
        graph: Graph,
        release: Release,
        dataplane: Dataplane,
        lists: AclLists | None,
        faults: FelixFaults,
        log: LevelLog,
        delay: float,
        host_addresses: Callable[[], Sequence[str]],
    ) -> None:
        """Set up the queue. ``lists`` is set on a Windows node; ``delay``: the seconds between
        computing and applying a policy on this node."""
        self._node = node
        self._dataplane = dataplane
        self._lists = lists
        self._faults = faults
        self._log = log
        self._own_delay = delay
        self._due = asyncio.Event()
        due = self._due.set
        self.policy: PolicySource = (
            NodePolicy(node, graph, faults, due)
            if lists is None
            else WindowsNodePolicy(node, host_addresses, graph, release, lists, faults, due, log)
        )
        self._queue: asyncio.Queue[tuple[float, PolicyDifference]] = asyncio.Queue()
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    @property
    def delay(self) -> float:
        """Return the seconds from computing a policy to applying it."""
        return self._own_delay + self._faults.delay

    async def follow(self) -> None:
        """Queue differences as they arise, for ever."""
        while True:
            await self._due.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._due.clear()
            difference = self.policy.difference()
            if difference is not None:
                self._queue.put_nowait((asyncio.get_running_loop().time(), difference))
                if not self.delay:
                    await self._queue.join()

    async def apply(self) -> None:
        """Send queued changes until cancelled."""
        while True:
            computed, difference = await self._queue.get()
            try:
                await self._wait_delay(computed)
                await self._dataplane.update_policy(self._node, difference.update)
            except DataplaneError as error:
                self._log(
                    "ERROR",
                    f"Failed to program policy, will retry everything in {RETRY_SECONDS:.0f}s: {error}",
                )
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self.policy.everything_due)
            else:
                for uid in difference.update.endpoints:
                    self._release(uid)
                if difference.update.endpoints:
                    await self._faults.programmed()
                if self._lists:
                    await self._faults.reprogrammed(self._lists.give(difference.lists))
            finally:
                self._queue.task_done()

    async def ready(self, uid: str) -> None:
        """Wait for a short time until an endpoint's policy is in place; do not wait if Felix is
        slow."""
        if self.delay or uid in self.policy:
            return
        ready = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(uid, []).append(ready)
        await asyncio.wait([ready], timeout=SETUP_PATIENCE_SECONDS)

    def drop(self) -> None:
        """Drop all pending changes, and let no pod wait for them."""
        while not self._queue.empty():
            self._queue.get_nowait()
            self._queue.task_done()
        for uid in list(self._waiting):
            self._release(uid)

    async def _wait_delay(self, computed: float) -> None:
        """Wait until the delay of an update is over; the delay may change during the wait."""
        loop = asyncio.get_running_loop()
        while (remaining := computed + self.delay - loop.time()) > 0:
            self._faults.delay_changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._faults.delay_changed.wait(), remaining)

    def _release(self, uid: str) -> None:
        for ready in self._waiting.pop(uid, ()):
            if not ready.done():
                ready.set_result(None)
