# SPDX-License-Identifier: Apache-2.0
"""A scripted network, and pods that connect in it. Packets are sent at once and again after
``syn_again``, as operating systems do.

Time passes only while code waits for an answer.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.probe.asking import Answered
from conformance.probe.clocks import unix
from conformance.settings import Timings
from tests.unit.conformance.expect.stand_ins import Clock, backend_named

Passes = Callable[[float], bool]
"""Returns whether a packet that is sent at this moment arrives."""
ROUND_TRIP = 0.002
"""s. The time from a packet to its answer."""


def always(_: float) -> bool:
    return True


def never(_: float) -> bool:
    return False


@dataclass
class Network:
    """The paths that are open, and when."""

    timings: Timings
    clock: Clock = field(default_factory=Clock)
    late: Callable[[], float] = lambda: 0.002
    """s. Returns the time from the request to an agent to the attempt's beginning."""
    passes: dict[tuple[str, str], Passes] = field(default_factory=dict)
    """Map (source's pod, target's host) to what happens to packets; all other packets arrive."""
    round_trip: float = ROUND_TRIP
    """s. The time from a packet that arrives to its answer."""
    cold: dict[str, float] = field(default_factory=dict)
    """Map each pod to the time at which its agent has started; attempts requested earlier begin
    then."""
    begun: list[tuple[float, Attempt]] = field(default_factory=list)
    cancelled: int = 0
    servers: dict[str, str] = field(default_factory=dict)
    """Map a target's host to the pod that answers in its place; empty: a server that does not
    report its name."""

    def named(self, attempt: Attempt, verdict: Verdict) -> str:
        """Return the answering pod's name for itself, if the kind of the attempt carries one."""
        own = backend_named(attempt, verdict)
        return self.servers.get(attempt.target.host, own) if own and attempt.target else own

    def says(self, source: Workload, target: Target, passes: Passes) -> None:
        self.passes[source.pod, target.host] = passes

    def asking(self) -> NetworkAsking:
        return NetworkAsking(self)

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        asking = self.asking()
        places = {ticket: place for place, ticket in enumerate(asking.begin(batch))}
        found: dict[int, Observation] = {}
        while asking.pending:
            answered = asking.next(1.0)
            if answered and answered.observation:
                found[places[answered.ticket]] = answered.observation
        return [found[place] for place in sorted(found)]

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        """Do nothing: these pods never change."""

    def outcome(self, attempt: Attempt, begun: float) -> tuple[float, Verdict]:
        """Return the time and the outcome of an attempt; no DNS server answers here."""
        if attempt.target is None:
            return begun + self.round_trip, Verdict.DNS_FAILED
        passes = self.passes.get((attempt.source.pod, attempt.target.host), always)
        again = self.timings.of(attempt.source.os).syn_again
        packets = (
            (begun,) if attempt.kind is Kind.UDP else (begun, begun + again, begun + 3 * again)
        )
        for sent in itertools.takewhile(
            lambda moment: moment < begun + attempt.give_up_after, packets
        ):
            if passes(sent):
                return sent + self.round_trip, Verdict.CONNECTED
        return begun + attempt.give_up_after, Verdict.TIMED_OUT


@dataclass
class NetworkAsking:
    """Attempts under way in the network."""

    network: Network
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _coming: list[tuple[float, int, Observation]] = field(default_factory=list)
    _leaves: dict[str, float] = field(default_factory=dict)
    """Map the uid of a source to the time at which its last attempt begins."""

    @property
    def pending(self) -> int:
        return len(self._coming)

    def begin(self, attempts: Sequence[Attempt]) -> list[int]:
        network, tickets = self.network, []
        for attempt in attempts:
            begun = (
                max(network.clock.now, network.cold.get(attempt.source.pod, 0.0)) + network.late()
            )
            network.begun.append((begun, attempt))
            self._leaves[attempt.source.uid] = max(
                begun, self._leaves.get(attempt.source.uid, begun)
            )
            ends, verdict = network.outcome(attempt, begun)
            seen = Observation(
                attempt=attempt, verdict=verdict, at=unix(network.clock.now), seconds=ends - begun,
                began=begun + 1000.0, clock=attempt.source.pod, began_at=unix(begun), began_at_error=0.001,
                served_by=self.network.named(attempt, verdict),
            )  # fmt: skip
            tickets.append(next(self._numbers))
            heapq.heappush(self._coming, (ends, tickets[-1], seen))
        return tickets

    def next(self, within: float) -> Answered | None:
        clock = self.network.clock
        if self._coming and self._coming[0][0] <= clock.now + within:
            ends, ticket, seen = heapq.heappop(self._coming)
            clock.now = max(clock.now, ends)
            return Answered(ticket, seen)
        clock.sleep(within)
        return None

    def waits(self, source: str) -> bool:
        return self._leaves.get(source, 0.0) > self.network.clock.now

    def cancel(self) -> None:
        self.network.cancelled += len(self._coming)
        self._coming.clear()


def outage(*spans: tuple[float, float], otherwise: Passes = always) -> Passes:
    """Return a path on which no packet arrives between the two moments of each span."""
    return lambda moment: (
        not any(first <= moment < last for first, last in spans) and otherwise(moment)
    )


def lossy(share: float, seed: int, otherwise: Passes = always) -> Passes:
    """Return a path that loses a share of the packets at random."""
    chance = random.Random(seed)
    return lambda moment: chance.random() >= share and otherwise(moment)
