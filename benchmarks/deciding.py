# SPDX-License-Identifier: Apache-2.0
"""The processor time that deciding costs the judge: ``python -m benchmarks.deciding``.

Every pod tries to connect to every other pod, and half of the paths are closed. Only the decision
is real: agents are scripted, and time passes only while the judge waits. The result is the CPU time
of one ``expect.matrix``, after the control that precedes it.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks import machine
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Pair, Workload
from conformance.model.observation import Observation, Verdict
from conformance.probe.asking import Answered
from conformance.probe.clocks import unix
from conformance.settings import load_timings

SIZES = (9, 30, 100, 200)
LATE = 0.002
"""s. The time from the request to an agent to the beginning of the attempt."""
ROUND_TRIP = 0.002
"""s. The time that a successful attempt takes."""


@dataclass
class Passing:
    """A clock that only its users advance."""

    now: float = 0.0

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds


@dataclass
class Scripted:
    """A prober whose scripted agents give the result that policy causes on each path, one result at
    a time."""

    clock: Passing
    closed: set[tuple[str, str]] = field(default_factory=set)
    """The closed paths: uid of the source and host of the target."""
    attempts: int = 0
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _coming: list[tuple[float, int, Observation]] = field(default_factory=list)

    def asking(self) -> Scripted:
        """Return this prober itself, since expectations use it one after the other."""
        return self

    def begin(self, attempts: Sequence[Attempt]) -> list[int]:
        """Schedule the result of each attempt: a round trip or the give-up time after its
        beginning."""
        tickets = []
        self.attempts += len(attempts)
        began = self.clock.now + LATE
        for attempt in attempts:
            assert attempt.target is not None
            denied = (attempt.source.uid, attempt.target.host) in self.closed
            takes = attempt.give_up_after if denied else ROUND_TRIP
            seen = Observation(
                attempt=attempt, verdict=Verdict.TIMED_OUT if denied else Verdict.CONNECTED, at=unix(self.clock.now),
                seconds=takes, began=began, clock=attempt.source.uid, began_at=unix(began), began_at_error=0.001,
            )  # fmt: skip
            tickets.append(next(self._numbers))
            heapq.heappush(self._coming, (began + takes, tickets[-1], seen))
        return tickets

    def next(self, within: float) -> Answered | None:
        """Return the next result; None if there is none within that time."""
        if self._coming and self._coming[0][0] <= self.clock.now + within:
            ends, ticket, seen = heapq.heappop(self._coming)
            self.clock.now = max(self.clock.now, ends)
            return Answered(ticket, seen)
        self.clock.now += within
        return None

    def waits(self, source: str) -> bool:
        """Return False: these agents are never busy."""
        return False

    def cancel(self) -> None:
        """Forget all attempts under way."""
        self._coming.clear()

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        """Raise NotImplementedError: only name resolution needs this method, and no target here is
        a name."""
        raise NotImplementedError

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        """Do nothing: these pods never change."""


def pods(count: int) -> list[Workload]:
    """Return this number of Linux pods, ten on each node."""
    return [
        Workload(
            namespace="bench", pod=f"pod-{number}", container="agent", uid=f"uid-{number}", role="pod", os="linux",
            node=f"node-{number // 10}", address=f"10.244.{number // 250}.{number % 250 + 1}", node_address="10.0.0.1",
        )
        for number in range(count)
    ]  # fmt: skip


def measure(size: int) -> tuple[float, int]:
    """Return the CPU seconds, and the number of attempts, of one matrix of ``size`` pods."""
    everybody, clock = pods(size), Passing()
    prober = Scripted(clock)
    expect = Expect(prober, load_timings(), clock=clock)  # type: ignore[arg-type]  # asks itself
    pairs: list[list[Pair]] = [[], []]
    for (first, source), (second, target) in itertools.product(enumerate(everybody), repeat=2):
        pairs[(first + second) % 2].append((source, target.tcp(8080)))
    opened, closed = pairs
    expect.controls([opened, closed], because="nothing is closed yet")
    prober.closed = {(source.uid, target.host) for source, target in closed}
    prober.attempts = 0
    began = time.process_time()
    expect.matrix(open=[opened], closed=[closed], because="half of the paths are closed")
    return time.process_time() - began, prober.attempts


def main() -> None:
    """Print one line of Markdown for each size."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--sizes",
        type=int,
        nargs="*",
        default=SIZES,
        help="numbers of pods; all connect to all",
    )
    print(f"Machine: {machine.describe()}\n")
    print("| pods | paths | attempts | CPU | CPU per attempt |\n| --- | --- | --- | --- | --- |")
    for size in options.parse_args().sizes:
        seconds, attempts = measure(size)
        print(
            f"| {size}x{size} | {size**2:,} | {attempts:,} | {seconds:.2f} s | {seconds / attempts * 1e6:.0f} us |"
        )


if __name__ == "__main__":
    main()
