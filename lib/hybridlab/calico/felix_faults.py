"""What can be wrong with a Felix on purpose, and what Felix asks instead of knowing any fault."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from hybridlab.dataplane.model import NodeRoutes, Tunnel
from hybridlab.policy.misreadings import Misreading, misread, one_number, widened
from hybridlab.policy.policy import PolicyKey
from hybridlab.policy.render import TierPolicies

logger = logging.getLogger(__name__)

Keys = frozenset[PolicyKey]
LevelLog = Callable[[str, str], None]
"""(level, message)."""


class Sets(Protocol):
    """The graph's sets, and which policies apply to an endpoint."""

    def keys_for(self, uid: str) -> Keys:
        """Which policies apply to an endpoint."""

    def has_set(self, name: str) -> bool:
        """Whether a policy names a set."""

    def members(self, name: str) -> tuple[str, ...]:
        """Members of a set."""

    def members_anywhere(self, name: str) -> tuple[str, ...]:
        """What they were, did a pod's own namespace not count."""


@dataclass
class FelixFaults:
    """What is wrong with one Felix, by the ids of the faults that asked for it."""

    node: str
    log: LevelLog
    frozen: dict[str, bool] = field(default_factory=dict)
    """Endpoints that were programmed once are not programmed again."""
    eager: dict[str, bool] = field(default_factory=dict)
    """Windows: lists are given anew with every update of their endpoint."""
    storms: dict[str, bool] = field(default_factory=dict)
    """Linux: programming an endpoint again ends its connections."""
    dead: dict[str, bool] = field(default_factory=dict)
    """It does not start."""
    forgetful: dict[str, bool] = field(default_factory=dict)
    """What changed while it was down is news to it only when it changes again."""
    misreadings: dict[str, Misreading] = field(default_factory=dict)
    """How it misreads policy."""
    applying: dict[str, Callable[[str, Keys], Keys]] = field(default_factory=dict)
    """Which policies it applies to an endpoint (uid), of those that do."""
    stale: dict[str, Callable[[tuple[TierPolicies, ...]], tuple[TierPolicies, ...]]] = field(
        default_factory=dict
    )
    """What it makes of the policies of an endpoint, of what they were before."""
    stale_sets: dict[str, Callable[[str, tuple[str, ...]], tuple[str, ...]]] = field(
        default_factory=dict
    )
    """What it makes of a set's members, by its name, of what they were before."""
    on_life: dict[str, Callable[[bool], None]] = field(default_factory=dict)
    """Told that this Felix starts (True) or has ended."""
    routes: dict[str, Callable[[NodeRoutes], NodeRoutes]] = field(default_factory=dict)
    """What it makes of its node's routes."""
    tunnels: dict[str, Callable[[Tunnel], Tunnel]] = field(default_factory=dict)
    """What it makes of its node's tunnel."""
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

    def laid(self, routes: NodeRoutes) -> NodeRoutes:
        """The node's routes as this Felix lays them."""
        for change in self.routes.values():
            routes = change(routes)
        return routes

    def tunnel(self, spec: Tunnel | None) -> Tunnel | None:
        """The node's tunnel as this Felix makes it."""
        if spec is not None:
            for change in self.tunnels.values():
                spec = change(spec)
        return spec

    def read(self, tiers: tuple[TierPolicies, ...]) -> tuple[TierPolicies, ...]:
        """An endpoint's policies as this Felix has them."""
        for change in self.stale.values():
            tiers = change(tiers)
        return misread(tiers, self.misreadings.values())

    def keys_for(self, graph: Sets, uid: str) -> Keys:
        """Which policies this Felix applies to an endpoint."""
        keys = graph.keys_for(uid)
        for change in self.applying.values():
            keys = change(uid, keys)
        return keys

    def lives(self, now: bool) -> None:
        """Tell the faults that wait for it that this Felix starts or has ended."""
        for told in self.on_life.values():
            told(now)

    def members(self, sets: Sets, name: str) -> tuple[str, ...]:
        ways = set(self.misreadings.values())
        if self.stale_sets and not sets.has_set(name):  # of a rule as it was before
            members: tuple[str, ...] = ()
        else:
            members = sets.members_anywhere(name) if "namesakes" in ways else sets.members(name)
        for change in self.stale_sets.values():
            members = change(name, members)
        members = members[-4000:] if "last-4000-members" in ways else members
        members = one_number(members) if "named-port-one-number" in ways else members
        return widened(members) if "blocks" in ways else members

    def held(self, programmed: tuple[str, ...]) -> tuple[str, ...]:
        """Return the programmed endpoints that keep what they have."""
        return programmed if self.frozen else ()

    def reset(self, endpoints: Collection[str], programmed: Collection[str]) -> tuple[str, ...]:
        """Return the ``endpoints`` that a Linux node programs now and whose connections end with it."""
        return (
            tuple(endpoint for endpoint in endpoints if endpoint in programmed)
            if self.storms
            else ()
        )

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
