# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a Felix on purpose, and what Felix asks instead of knowing any fault."""

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
"""(level, message)."""


class Sets(Protocol):
    """The graph's sets."""

    def has_set(self, name: str) -> bool:
        """Whether a policy names a set."""

    def members(self, name: str) -> tuple[str, ...]:
        """Members of a set."""


@dataclass
class FelixFaults:
    """What is wrong with one Felix, by the ids of the faults that asked for it."""

    node: str
    log: LevelLog
    eager: dict[str, bool] = field(default_factory=dict)
    """Windows: lists are given anew with every update of their endpoint."""
    dead: dict[str, bool] = field(default_factory=dict)
    """It does not start."""
    forgetful: dict[str, bool] = field(default_factory=dict)
    """What changed while it was down is news to it only when it changes again."""
    applying: Seam[Keys] = field(default_factory=Seam)
    """Policies that apply to an endpoint; about: its uid."""
    policies: Seam[Tiers] = field(default_factory=Seam)
    """Policies of an endpoint, by tier."""
    set_members: Seam[tuple[str, ...]] = field(default_factory=Seam)
    """Members of a set; about: its name."""
    held: Seam[tuple[str, ...]] = field(default_factory=Seam)
    """Endpoints (none) that keep the program which they have; about: all that were programmed."""
    resets: Seam[tuple[str, ...]] = field(default_factory=Seam)
    """Endpoints whose connections end; about: those that are programmed now, all that were
    before."""
    acls: Seam[Mapping[str, tuple[Entry, ...]]] = field(default_factory=Seam)
    """Windows: endpoints' ACL lists as HNS shows them."""
    on_life: dict[str, Callable[[bool], None]] = field(default_factory=dict)
    """Told that this Felix starts (True) or has ended."""
    routes: Seam[NodeRoutes] = field(default_factory=Seam)
    """Routes of the node."""
    tunnels: Seam[Tunnel] = field(default_factory=Seam)
    """Tunnel of the node."""
    hostless: dict[str, bool] = field(default_factory=dict)
    """Windows: lists have no entry that lets the node itself in."""
    on_reprogrammed: dict[str, Callable[[tuple[str, ...]], Awaitable[None]]] = field(
        default_factory=dict
    )
    """Told the endpoints whose ACL list Felix replaced by another of its own."""
    on_programmed: dict[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    """Told that Felix has programmed endpoints, for the first time or again."""
    delays: dict[str, float] = field(default_factory=dict)
    """Seconds that policy is late; the longest one counts."""
    delay_changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when one came or went: what waits is applied at once when none is left."""

    @property
    def delay(self) -> float:
        """Seconds that policy is late."""
        return max(self.delays.values(), default=0.0)

    @property
    def starts(self) -> bool:
        """Felix starts when it is told to."""
        return not self.dead

    def tunnel(self, spec: Tunnel | None) -> Tunnel | None:
        """The node's tunnel as this Felix makes it."""
        return None if spec is None else self.tunnels(spec)

    def lives(self, now: bool) -> None:
        """Tell the faults that wait for it that this Felix starts or has ended."""
        for told in self.on_life.values():
            told(now)

    def members(self, sets: Sets, name: str) -> tuple[str, ...]:
        """Return the members of a set; of one that only rules of before name, what taps
        remember."""
        lost = self.set_members.taps and not sets.has_set(name)
        return self.set_members(() if lost else sets.members(name), name)

    async def programmed(self) -> None:
        """Tell the faults that wait for endpoints' being programmed."""
        for fault in list(self.on_programmed):
            if told := self.on_programmed.get(fault):
                await self._tell(fault, told())

    async def reprogrammed(self, endpoints: tuple[str, ...]) -> None:
        """Tell the faults that wait for lists' replacement."""
        for fault in list(self.on_reprogrammed) if endpoints else ():
            if told := self.on_reprogrammed.get(fault):
                await self._tell(fault, told(endpoints))

    async def _tell(self, fault: str, telling: Awaitable[None]) -> None:
        """Faults come and go meanwhile; one that fails is no failure of Felix'."""
        try:
            await telling
        except Exception as error:
            logger.exception("Fault %s failed when Felix of %s had programmed", fault, self.node)
            self.log("ERROR", f"Fault {fault} failed: {error!r}")
