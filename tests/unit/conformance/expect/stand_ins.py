# SPDX-License-Identifier: Apache-2.0
"""A prober that answers from a script, a clock that needs no time, and workloads for
expectations."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from conformance.errors import EnvironmentBroken, SuiteError
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.probe.asking import Answered
from conformance.probe.clocks import unix


def target(host: str = "192.168.0.9") -> Target:
    return Target(host=host, port=80, protocol="tcp", path=Addressing.POD_IP)


BYSTANDER = target("192.168.0.200")
"""A server that no policy selects: it answers everybody, even if the script gives another
answer."""


FOR_EVER = 10_000.0
"""s. A time that no test reaches."""


@dataclass
class Clock:
    """A clock that advances only when code sleeps."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        assert self.now < FOR_EVER, (
            "nobody's patience ends: do the expectation and its prober have the same clock?"
        )


Answer = Verdict | Exception | Callable[[Attempt, int], Observation]


@dataclass
class ScriptedProber:
    """Answers attempts by their source's name: one answer per round, and the last answer for all
    later rounds."""

    answers: dict[str, list[Answer]]
    clock: Clock = field(default_factory=Clock)
    batches: list[list[str]] = field(default_factory=list)
    restarted: set[str] = field(default_factory=set)
    """Names of pods that have been replaced."""
    _rounds: Counter[str] = field(default_factory=Counter)

    @property
    def rounds(self) -> int:
        """Return the number of batches of the source that had most batches. Setting it to 0 begins
        all scripts again."""
        return max(self._rounds.values(), default=0)

    @rounds.setter
    def rounds(self, number: int) -> None:
        self._rounds.clear()

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        self.batches.append([attempt.source.pod for attempt in batch])
        found = [self._answer(attempt) for attempt in batch]
        self._rounds.update({attempt.source.pod for attempt in batch})
        return found

    def asking(self) -> ScriptedAsking:
        return ScriptedAsking(self)

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        for item in workloads:
            if item.pod in self.restarted:
                raise EnvironmentBroken(f"pod {item.label} restarted 1 time")

    def _answer(self, attempt: Attempt) -> Observation:
        if attempt.target == BYSTANDER:
            return observation(attempt, Verdict.CONNECTED)
        script = self.answers[attempt.source.pod]
        number = self._rounds[attempt.source.pod]
        answer = script[min(number, len(script) - 1)]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Verdict):
            return observation(attempt, answer)
        return answer(attempt, number)


@dataclass
class ScriptedAsking:
    """Attempts under way: time-outs take their time, and all other results arrive soon."""

    prober: ScriptedProber
    _coming: list[tuple[float, int, Answered]] = field(default_factory=list)
    _tickets: int = 0

    @property
    def pending(self) -> int:
        return len(self._coming)

    def begin(self, attempts: Sequence[Attempt]) -> list[int]:
        now, tickets = self.prober.clock.now, []
        self.prober.batches.append([attempt.source.pod for attempt in attempts])
        for attempt in attempts:
            self._tickets += 1
            tickets.append(self._tickets)
            try:
                seen = self.prober._answer(attempt)
            except SuiteError as error:
                heapq.heappush(
                    self._coming, (now, self._tickets, Answered(self._tickets, error=error))
                )
                continue
            seen = replace(
                seen,
                began=now,
                clock=attempt.source.pod,
                at=unix(now),
                began_at=unix(now),
                began_at_error=0.001,
            )
            ends = now + (
                attempt.give_up_after if seen.verdict is Verdict.TIMED_OUT else seen.seconds
            )
            heapq.heappush(self._coming, (ends, self._tickets, Answered(self._tickets, seen)))
        self.prober._rounds.update({attempt.source.pod for attempt in attempts})
        return tickets

    def next(self, within: float) -> Answered | None:
        clock = self.prober.clock
        if self._coming and self._coming[0][0] <= clock.now + within:
            ends, _, answered = heapq.heappop(self._coming)
            clock.now = max(clock.now, ends)
            return answered
        clock.sleep(within)
        return None

    def waits(self, source: str) -> bool:
        return False

    def cancel(self) -> None:
        self._coming.clear()


class Observer(Protocol):
    clock: Clock

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]: ...


@dataclass
class ImmediateAsking:
    """Attempts that are answered as soon as they begin, batch by batch."""

    prober: Observer
    _answers: deque[Answered] = field(default_factory=deque)
    _tickets: int = 0

    @property
    def pending(self) -> int:
        return len(self._answers)

    def begin(self, attempts: Sequence[Attempt]) -> list[int]:
        first, now = self._tickets + 1, self.prober.clock.now
        for seen in self.prober.observe(attempts):
            self._tickets += 1
            told = replace(
                seen,
                began=now,
                clock=seen.attempt.source.pod,
                began_at=unix(now),
                began_at_error=0.001,
            )
            self._answers.append(Answered(self._tickets, told))
        return list(range(first, self._tickets + 1))

    def next(self, within: float) -> Answered | None:
        if self._answers:
            return self._answers.popleft()
        self.prober.clock.sleep(within)
        return None

    def waits(self, source: str) -> bool:
        return False

    def cancel(self) -> None:
        self._answers.clear()


def observation(attempt: Attempt, verdict: Verdict, **more: str) -> Observation:
    """Return the observation of an attempt; if its answer names a pod, the pod is a backend of its
    target."""
    if "served_by" not in more:
        more["served_by"] = backend_named(attempt, verdict)
    seconds = attempt.give_up_after if verdict is Verdict.TIMED_OUT else 0.012
    echo = (b"abcdefghijklmnopqrstuvwxyz" * (attempt.payload // 26 + 1))[
        : min(attempt.payload, 1 << 16)
    ]
    if attempt.kind is Kind.UDP and echo:
        echo = b"who\n" + echo[4 if len(echo) > 512 else 0 :]
    one = Observation(attempt=attempt, verdict=verdict, at=0.0, seconds=seconds, body=echo)
    return replace(one, **more)  # type: ignore[arg-type]


def backend_named(attempt: Attempt, verdict: Verdict) -> str:
    """Return the name that the first backend of an attempt's target reports, if it answers and can
    report a name."""
    backends = attempt.target.backends if attempt.target else ()
    names = (
        verdict is Verdict.CONNECTED and attempt.kind in (Kind.HTTP, Kind.UDP) and bool(backends)
    )
    return f"{backends[0].namespace}/{backends[0].pod}" if names else ""


def told(kept: Iterable[Decision]) -> list[str]:
    """Return the reasons of decisions that are LIFTED or NOT_OBSERVED."""
    return [
        seen.reason
        for seen in kept
        if seen.verdict in (ClaimVerdict.LIFTED, ClaimVerdict.NOT_OBSERVED)
    ]
