"""Attempts under way: they leave when they are begun, and each result is told when it comes.

One expectation asks through one :class:`Asking`.  What it gives up is not heard of any more: not as a result, and not
in any transcript.
"""

import itertools
import queue
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from conformance.model.attempt import Attempt
from conformance.model.observation import Observation
from conformance.probe import protocol
from conformance.probe.agents import Agents
from conformance.probe.lane import Lane, Told, Try


@dataclass(frozen=True)
class Answered:
    """What became of one attempt: exactly one of ``observation`` and ``error`` is there."""

    ticket: int
    observation: Observation | None = None
    error: Exception | None = None
    """ProbeBroken or EnvironmentBroken, after all that was tried again."""


class Asking(Protocol):
    """One expectation's attempts under way.  Not thread-safe: it is used by one thread."""

    def begin(self, attempts: Sequence[Attempt]) -> list[int]:
        """Send attempts, and return at once with their tickets, which are unique in this Asking."""

    def next(self, within: float) -> Answered | None:
        """The next result, or None after so many seconds without one."""

    def waits(self, source: str) -> bool:
        """Whether some of a source's attempts have not left yet: its agent is being started, or has its hands full."""

    def cancel(self) -> None:
        """End everything that is under way; nothing of it is heard or written into any transcript later."""


class LiveAsking:
    """An Asking by agents in pods."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._numbers = itertools.count(1)
        self._lanes: dict[str, Lane] = {}
        self._came = queue.SimpleQueue[Sequence[Told]]()
        self._ready = deque[Answered]()
        self.pending = 0
        """Attempts begun whose result :meth:`next` has not given yet."""

    def begin(self, attempts: Sequence[Attempt]) -> list[int]:
        """As :class:`Asking` says.  Raises ValueError, and sends nothing, for an attempt that names too little."""
        tries = [Try(next(self._numbers), attempt, protocol.spec(attempt)) for attempt in attempts]
        by_source: dict[str, list[Try]] = {}
        for attempt in tries:
            by_source.setdefault(attempt.attempt.source.uid, []).append(attempt)
        self.pending += len(tries)
        for uid, several in by_source.items():
            if uid not in self._lanes:
                self._lanes[uid] = Lane(several[0].attempt.source, self._agents, self._came.put)
            self._lanes[uid].begin(several)
        return [attempt.ticket for attempt in tries]

    def next(self, within: float) -> Answered | None:
        if not self._ready:
            try:
                told = self._came.get(timeout=within) if within > 0 else self._came.get_nowait()
            except queue.Empty:
                return None
            self._ready.extend(Answered(*item) for item in told)
        self.pending -= 1
        return self._ready.popleft()

    def waits(self, source: str) -> bool:
        lane = self._lanes.get(source)
        return lane is not None and lane.waits

    def cancel(self) -> None:
        """As :class:`Asking` says; it can be used again afterwards."""
        lanes = list(self._lanes.values())
        self._lanes = {}
        # what still comes goes to where nobody looks
        self._came = queue.SimpleQueue()
        self.pending = 0
        self._ready.clear()
        for lane in lanes:
            lane.cancel()
