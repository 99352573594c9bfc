# SPDX-License-Identifier: Apache-2.0
"""How far a run has got and how long it will go on, told from how long the same tests took in an earlier run."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

USUAL = 5.0
"""s.  Taken for a test that no earlier run has timed."""


@dataclass
class Pace:
    """The pace of one run."""

    recorded: Mapping[str, float]
    """Test to the seconds that it took in an earlier run."""
    planned: Collection[str] = ()
    done: set[str] = field(default_factory=set)
    decisions: int = 0

    def ended(self, test: str, decisions: int) -> None:
        """A test has ended, and decided so much."""
        if test not in self.done:
            self.done.add(test)
            self.decisions += decisions

    def line(self, elapsed: float) -> str:
        """``40 of 160 tests, 212 decisions; about 3 min left``.  ``elapsed``: s since the first test began."""
        told = f"{len(self.done)} of {len(self.planned) or '?'} tests, {self.decisions} decisions"
        left = self.left(elapsed)
        if left is None:
            return told
        return f"{told}; about {f'{left:.0f} s' if left < 90 else f'{left / 60:.0f} min'} left"

    def left(self, elapsed: float) -> float | None:
        """Seconds until the last test has ended, at the speed so far; None: nothing to tell it from yet."""
        behind = sum(self.recorded.get(test, USUAL) for test in self.done)
        ahead = sum(
            self.recorded.get(test, USUAL) for test in self.planned if test not in self.done
        )
        return ahead * elapsed / behind if behind and self.planned else None


def recorded(reports: Path, run: Path) -> dict[str, float]:
    """Seconds of each test in the newest report beside a run; nothing where there is none that can be read."""
    for folder in sorted((path for path in reports.glob("20*") if path != run), reverse=True):
        try:
            plain = json.loads((folder / "conformance.json").read_text(encoding="utf-8"))
            return {test["test"]: float(test["seconds"]) for test in plain["tests"] if test["ran"]}
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return {}
