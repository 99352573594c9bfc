# SPDX-License-Identifier: Apache-2.0
"""The progress of a run, and the remaining time, estimated from the durations of an earlier run's
tests."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conformance.model.counted import counted, lasting

EARLY = 0.05
"""The share of the planned tests that must have ended before their speed counts more than the
durations that are packaged with the suite."""


@dataclass
class Pace:
    """The pace of a run."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    """The seconds that each planned test takes, as far as they are known before the run."""
    span: tuple[float, float] = (0.0, 0.0)
    """The shortest and the longest time that all planned tests take, in seconds, by their packaged
    durations."""
    alone: frozenset[str] = frozenset()
    """Exclusive tests. Their seconds were measured while no other test ran. A run that is fast
    because fewer tests share the machine is therefore not faster in exclusive tests."""
    done: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    decisions: int = 0

    def ended(self, test: str, decisions: int, *, failed: bool = False) -> None:
        """Count a test that has ended, and its decisions."""
        if test not in self.done:
            self.done.add(test)
            self.decisions += decisions
        if failed:
            self.failed.add(test)

    @property
    def over(self) -> bool:
        """Return whether every planned test has ended."""
        return bool(self.seconds) and len(self.done) == len(self.seconds)

    def line(self, elapsed: float) -> str:
        """Return ``40 of 160 tests done, 2 failed, 212 decisions; about 3 min left``.

        ``elapsed``: seconds since the first test began.
        """
        failed = f", {len(self.failed)} failed" if self.failed else ""
        done = f"{len(self.done)} of {len(self.seconds) or '?'} tests done{failed}"
        progress = f"{done}, {counted(self.decisions, 'decision')}"
        if self.over or not self.seconds:
            return progress
        left = self.left(elapsed)
        if left is None:
            least, most = (max(0.0, each - elapsed) for each in self.span)
            return f"{progress}; {spanned(least, most)} left (packaged estimate)"
        return f"{progress}; about {lasting(left)} left"

    def left(self, elapsed: float) -> float | None:
        """Return the seconds until the last test ends, at the speed so far; None if the speed is
        not known yet."""
        behind = sum(self.seconds.get(test, 0.0) for test in self.done)
        if not behind or len(self.done) < EARLY * len(self.seconds):
            return None
        pace = elapsed / behind
        return sum(
            each * (max(1.0, pace) if test in self.alone else pace)
            for test, each in self.seconds.items()
            if test not in self.done
        )


def spanned(least: float, most: float) -> str:
    """Return a range of seconds in words: ``40 to 80 s``, ``7 to 14 min``."""
    if most < 90:
        return f"{least:.0f} to {most:.0f} s"
    low, high = (max(1, round(each / 60)) for each in (least, most))
    return f"{low} to {high} min" if low < high else f"about {high} min"


def recorded(reports: Path, run: Path) -> dict[str, float]:
    """Return the seconds of each decided test in the newest readable report in the same folder, if
    there is one."""
    for folder in sorted((path for path in reports.glob("20*") if path != run), reverse=True):
        try:
            plain = json.loads((folder / "conformance.json").read_text(encoding="utf-8"))
            return {
                test["test"]: float(test["seconds"])
                for test in plain["tests"]
                if test["ran"] and test["verdict"] not in ("INCONCLUSIVE", "NOT_RUN")
            }
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return {}
