# SPDX-License-Identifier: Apache-2.0
"""What deciding costs the process that does it: ``python -m benchmarks.deciding``.

Every pod asks every other, half of the paths are closed, and nothing but the decision is there: agents by script, and
time that passes only while somebody waits.  CPU time of one ``expect.matrix``, after the control before it.
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
"""s.  From telling an agent to an attempt's beginning."""
ROUND_TRIP = 0.002
"""s.  Of an attempt that connects."""


@dataclass
class Passing:
    """A clock that somebody else moves."""

    now: float = 0.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Move it."""
        self.now += seconds


@dataclass
class Scripted:
    """A prober whose agents know what policy makes of each path; what ends at one moment is heard together."""

    clock: Passing
    closed: set[tuple[str, str]] = field(default_factory=set)
    """Uid of the source and host of the target."""
    attempts: int = 0
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _coming: list[tuple[float, int, Observation]] = field(default_factory=list)

    def asking(self) -> Scripted:
        """Itself: expectations come one after the other."""
        return self

    def begin(self, attempts: Sequence[Attempt]) -> list[int]:
        """Each ends once its agent has been told, and the network has answered or not."""
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
        """The next result."""
        if self._coming and self._coming[0][0] <= self.clock.now + within:
            ends, ticket, seen = heapq.heappop(self._coming)
            self.clock.now = max(self.clock.now, ends)
            return Answered(ticket, seen)
        self.clock.now += within
        return None

    def waits(self, source: str) -> bool:
        """No agent has its hands full."""
        return False

    def cancel(self) -> None:
        """Forget what is under way."""
        self._coming.clear()

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        """Not used: no target here is a name."""
        raise NotImplementedError

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        """Pods stay what they are."""


def pods(count: int) -> list[Workload]:
    """Linux pods, a node for each ten."""
    return [
        Workload(
            namespace="bench", pod=f"pod-{number}", container="agent", uid=f"uid-{number}", role="pod", os="linux",
            node=f"node-{number // 10}", address=f"10.244.{number // 250}.{number % 250 + 1}", node_address="10.0.0.1",
        )
        for number in range(count)
    ]  # fmt: skip


def measure(size: int) -> tuple[float, int]:
    """s of CPU, and attempts, of one matrix of so many pods."""
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
    """A line of Markdown for each size."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--sizes", type=int, nargs="*", default=SIZES, help="pods, each of which asks each"
    )
    print(f"Machine: {machine.describe()}\n")
    print(
        "| pods | paths | attempts | CPU | of it for an attempt |\n| --- | --- | --- | --- | --- |"
    )
    for size in options.parse_args().sizes:
        seconds, attempts = measure(size)
        print(
            f"| {size}x{size} | {size**2:,} | {attempts:,} | {seconds:.2f} s | {seconds / attempts * 1e6:.0f} us |"
        )


if __name__ == "__main__":
    main()
