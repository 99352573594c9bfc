# SPDX-License-Identifier: Apache-2.0
"""The deliberate faults of a Felix, and the interface through which Felix applies them, so that
Felix' code depends on no fault."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hybridlab.dataplane.model import NodeRoutes, Tunnel
from hybridlab.policy.acls import Entry
from hybridlab.policy.policy import PolicyKey
from hybridlab.policy.render import TierPolicies
from hybridlab.taps import Seam

logger = logging.getLogger(__name__)

Keys = frozenset[PolicyKey]
Tiers = tuple[TierPolicies, ...]
LevelLog = Callable[[str, str], None]
"""Receives the level and the message."""


class Sets(Protocol):
    """The IP sets of the calculation graph."""

    def has_set(self, name: str) -> bool:
        """Return whether a policy names a set."""

    def members(self, name: str) -> tuple[str, ...]:
        """Return the members of a set."""


@dataclass
class FelixFaults:
    """The faults of a Felix, keyed by the ids of the injected faults.

    A seam (``hybridlab.taps``) passes a value through the functions ("taps") that faults add; each
    tap may replace the value. Arguments called ``about`` below are passed to each tap as well.
    """

    node: str
    log: LevelLog
    eager: dict[str, bool] = field(default_factory=dict)
    """Windows: lists are written again with every update of their endpoint."""
    dead: dict[str, bool] = field(default_factory=dict)
    """Felix does not start."""
    forgetful: dict[str, bool] = field(default_factory=dict)
    """Felix notices a change that was made while it was down only when the object changes again."""
    applying: Seam[Keys] = field(default_factory=Seam)
    """Passes the keys of the policies that apply to an endpoint; its argument ``about`` is the
    endpoint's uid."""
    policies: Seam[Tiers] = field(default_factory=Seam)
    """Passes the policies of an endpoint, by tier."""
    set_members: Seam[tuple[str, ...]] = field(default_factory=Seam)
    """Passes the members of a set; its argument ``about`` is the set's name."""
    held: Seam[tuple[str, ...]] = field(default_factory=Seam)
    """Passes the endpoints that keep their present program (without a fault, none). Its argument
    ``about`` is all endpoints that were programmed."""
    resets: Seam[tuple[str, ...]] = field(default_factory=Seam)
    """Passes the endpoints that lose their connections. Its arguments ``about`` are the endpoints
    that are programmed now, and those that were programmed before."""
    acls: Seam[Mapping[str, tuple[Entry, ...]]] = field(default_factory=Seam)
    """On Windows: passes the ACL lists of endpoints as HNS shows them."""
    on_life: dict[str, Callable[[bool], None]] = field(default_factory=dict)
    """Called when this Felix starts (True) or has ended."""
    routes: Seam[NodeRoutes] = field(default_factory=Seam)
    """Passes the routes of the node."""
    tunnels: Seam[Tunnel] = field(default_factory=Seam)
    """Passes the tunnel of the node."""
    hostless: dict[str, bool] = field(default_factory=dict)
    """Windows: lists have no entry that admits the node itself."""
    on_reprogrammed: dict[str, Callable[[tuple[str, ...]], Awaitable[None]]] = field(
        default_factory=dict
    )
    """Called with the endpoints for which Felix has just replaced an earlier ACL list of its
    own."""
    on_programmed: dict[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    """Called when Felix has programmed endpoints, for the first time or again."""
    delays: dict[str, float] = field(default_factory=dict)
    """The delays of policy, in seconds; the longest delay counts."""
    delay_changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a delay begins or ends; waiting policy is applied at once when no delay is left."""

    @property
    def delay(self) -> float:
        """Return the delay of policy that faults cause, in seconds."""
        return max(self.delays.values(), default=0.0)

    @property
    def starts(self) -> bool:
        """Return whether Felix starts on request."""
        return not self.dead

    def tunnel(self, spec: Tunnel | None) -> Tunnel | None:
        """Return the node's tunnel as this Felix makes it, with the changes by faults."""
        return None if spec is None else self.tunnels(spec)

    def lives(self, now: bool) -> None:
        """Notify the listening faults that this Felix starts or has ended."""
        for listener in self.on_life.values():
            listener(now)

    def members(self, sets: Sets, name: str) -> tuple[str, ...]:
        """Return the members of a set. If taps are set and no policy names the set any more, return
        the members that the taps still have."""
        lost = self.set_members.taps and not sets.has_set(name)
        return self.set_members(() if lost else sets.members(name), name)

    async def programmed(self) -> None:
        """Notify the listening faults that endpoints were programmed."""
        for fault in list(self.on_programmed):
            if listener := self.on_programmed.get(fault):
                await self._tell(fault, listener())

    async def reprogrammed(self, endpoints: tuple[str, ...]) -> None:
        """Notify the listening faults that lists were replaced."""
        for fault in list(self.on_reprogrammed) if endpoints else ():
            if listener := self.on_reprogrammed.get(fault):
                await self._tell(fault, listener(endpoints))

    async def _tell(self, fault: str, telling: Awaitable[None]) -> None:
        """Call the listeners of a fault. An error in a listener is logged, and is no failure of
        Felix."""
        try:
            await telling
        except Exception as error:
            logger.exception("Fault %s failed when Felix of %s had programmed", fault, self.node)
            self.log("ERROR", f"Fault {fault} failed: {error!r}")
