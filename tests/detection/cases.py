# SPDX-License-Identifier: Apache-2.0
"""The cases of the wrong-verdict table, and the rule for a correct answer."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from conformance.model.endpoint import OS
from tests.detection.breaks import BREAKS, Break, Span

Expected = Literal["allow", "deny"]
PathIs = Literal["open", "denied"]
Answer = Literal["CONFIRMED", "VIOLATED", "INCONCLUSIVE", "ERROR"]
TRUE_OF: dict[Expected, PathIs] = {"allow": "open", "deny": "denied"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One question to the judge while something breaks."""

    broken: Break
    expected: Expected
    path: PathIs
    """The true state of the path by policy, once a break of policy itself is over."""
    source: OS
    target: OS
    agent: Literal["warm", "cold"]
    """warm: the source's agent already runs when the break begins; cold: it does not."""
    span: Span

    @property
    def true(self) -> bool:
        """Return whether the expectation is true of the cluster."""
        return TRUE_OF[self.expected] == self.path

    @property
    def deviates(self) -> bool:
        """Return whether the break makes the cluster deviate from the documents for the whole time
        of the judge's check."""
        wanted = self.broken.deviates
        return bool(wanted) and all(getattr(self, name) == value for name, value in wanted.items())

    @property
    def label(self) -> str:
        return (
            f"{self.broken.name}: {self.expected} expected, path {self.path}, {self.source} -> {self.target}, "
            f"{self.agent} agent, {self.span}"
        )


@dataclass(frozen=True, kw_only=True)
class Result:
    """The answer of the judge."""

    case: Case
    answer: Answer
    line: str
    """The type and the first line of the raised error; empty for CONFIRMED."""
    seconds: float

    @property
    def wrong(self) -> bool:
        """Return whether the verdict is false, which must never happen."""
        case, broken = self.case, self.case.broken
        # late policy may have taken effect in the end: wrong_verdicts.py checks the time
        if self.answer == "CONFIRMED":
            return not case.true or (case.deviates and broken.fault != "policy-late")
        if self.answer == "VIOLATED":
            if case.deviates and re.search(broken.deviation, self.line):
                return False
            return case.true or not re.search(_SEEN[case.path], self.line)
        return self.answer == "ERROR"

    @property
    def misnamed(self) -> bool:
        """Return whether the answer is INCONCLUSIVE, but its first line does not name the real
        break."""
        named = self.case.broken.named
        return self.answer == "INCONCLUSIVE" and not (named and re.search(named, self.line))


_SEEN: dict[PathIs, str] = {
    "open": r"observed .*CONNECTED",
    "denied": r"observed .*(TIMED_OUT|REFUSED)",
}


def cases(breaks: tuple[Break, ...] = BREAKS) -> Iterator[Case]:
    """Return 32 cases for each break and expectation."""
    systems: tuple[OS, OS] = ("linux", "windows")
    expectations: tuple[Expected, Expected] = ("allow", "deny")
    paths: tuple[PathIs, PathIs] = ("open", "denied")
    agents: tuple[Literal["warm", "cold"], ...] = ("warm", "cold")
    spans: tuple[Span, Span] = ("lasting", "passing")
    for broken, expected in itertools.product(breaks, expectations):
        for path, source, target, agent, span in itertools.product(
            paths, systems, systems, agents, spans
        ):
            yield Case(
                broken=broken,
                expected=expected,
                path=path,
                source=source,
                target=target,
                agent=agent,
                span=span,
            )
