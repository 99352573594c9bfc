# SPDX-License-Identifier: Apache-2.0
"""Records how many attempts each path needed, and after how long a policy change took effect. Only
expectations that ended as expected are recorded: a failure has a message instead, and no effect
whose time could be measured."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from conformance.expect.engine.answered import as_wanted
from conformance.expect.engine.path import Path, Try
from conformance.model.attempt import Attempt
from conformance.model.endpoint import OS
from conformance.model.figures import Effect, Figures, Tries


@dataclass(frozen=True, kw_only=True)
class PolicyChange:
    """A change of policy that was accepted by the API server."""

    what: str
    at: float
    """Seconds of the suite's monotonic clock."""
    enforced_at: Literal["source", "target", "both"]
    """The end whose node enforces the policy: the source for egress, the target for ingress."""


@dataclass
class FigureLog:
    """The measured figures of a test."""

    tries: Counter[tuple[str, int]] = field(default_factory=Counter)
    resent: Counter[tuple[str, int]] = field(default_factory=Counter)
    effects: list[Effect] = field(default_factory=list)
    _timed: set[PolicyChange] = field(default_factory=set)

    def figures(self) -> Figures:
        """Return the figures that were recorded so far."""
        tries = [
            Tries(
                direction=direction,
                tries=number,
                attempts=count,
                resent=self.resent[direction, number],
            )
            for (direction, number), count in sorted(self.tries.items())
        ]
        return Figures(tries=tuple(tries), effects=tuple(self.effects))

    def decided(self, paths: Sequence[Path], rows: Sequence[Sequence[Try]]) -> None:
        """Record an expectation that ended as expected; ``rows``: for each path the attempts that
        decided it.
        """
        for path, row in zip(paths, rows, strict=True):
            observations = [
                attempt.observation
                for attempt in _until(path, row)
                if attempt.observation is not None
            ]
            key = (
                direction(path.attempt),
                _stable_from([as_wanted(observation, path.want) for observation in observations])
                + 1,
            )
            self.tries[key] += 1
            self.resent[key] += sum(observation.tries - 1 for observation in observations)

    def took_effect(
        self, change: PolicyChange, turned: Sequence[tuple[Path, Sequence[Try]]], began: float
    ) -> None:
        """Record how long a change took to have an effect, by the first expectation after it that
        ended as expected.

        ``turned``: the paths that the change opened or closed, with the attempts that decided each;
        ``began``: the monotonic time (s) at which the expectation began.
        """
        if change in self._timed or not turned:
            return
        self._timed.add(change)
        times: dict[tuple[OS, bool], list[tuple[float, float, float]]] = {}
        for path, row in turned:
            found_at = _found_at(path, row, began - change.at)
            for os in _enforcers(change, path.attempt):
                times.setdefault((os, path.want), []).append(found_at)
        for (os, want), found in times.items():
            first_correct, until_stable, last_wrong = (
                round(max(item), 3) for item in zip(*found, strict=True)
            )
            self.effects.append(
                Effect(
                    change=change.what,
                    os=os,
                    wanted="open" if want else "closed",
                    first_correct=first_correct,
                    stable=until_stable,
                    exposure=None if want else last_wrong,
                )
            )


def _found_at(path: Path, row: Sequence[Try], after: float) -> tuple[float, float, float]:
    """Return the seconds from a change to a path's first right answer, first stable answer, and
    last wrong answer. ``after``: seconds from the change to the beginning of the expectation."""
    answers = _answers(path, row)
    fits = [right for _, right in answers]
    times = [max(0.0, after + when) for when, _ in answers]
    wrong = [when for when, right in zip(times, fits, strict=True) if not right]
    return times[fits.index(True)], times[_stable_from(fits)], wrong[-1] if wrong else 0.0


def _answers(path: Path, row: Sequence[Try]) -> list[tuple[float, bool]]:
    """Return for each attempt, up to the last attempt of a row, the time when it showed its result,
    and whether the result was right.

    Times are seconds from the beginning of the expectation. If the path should be open, an attempt
    that began before the first connection was made may have waited for a repeated SYN. If such an
    attempt connected, it counts at the time of the first connection. If it failed, it does not
    count.
    """
    answered = [
        (attempt.at, attempt.observation) for attempt in _until(path, row) if attempt.observation
    ]
    if not path.want:
        return [(at, as_wanted(observation, False)) for at, observation in answered]
    asked = [
        (at, at + observation.seconds, as_wanted(observation, True)) for at, observation in answered
    ]
    opened = min(came for _, came, right in asked if right)
    return [
        (opened if at <= opened else came, right)
        for at, came, right in asked
        if right or at > opened
    ]


def direction(attempt: Attempt) -> str:
    """Return ``linux->windows``, or ``linux->-`` if it is not known which pod answers."""
    backends = attempt.target.backends if attempt.target else ()
    return f"{attempt.source.os}->{backends[0].os if backends else '-'}"


def _until(path: Path, row: Sequence[Try]) -> Sequence[Try]:
    """Return the attempts up to the last attempt of a row. Later attempts began while other paths
    were undecided, and may have failed."""
    last = max(attempt.asked for attempt in row)
    return [attempt for attempt in path.tries if attempt.asked <= last]


def _stable_from(judged: Sequence[bool]) -> int:
    """Return the index of the first right answer after which no answer is wrong."""
    return max((number for number, fits in enumerate(judged) if not fits), default=-1) + 1


def _enforcers(change: PolicyChange, attempt: Attempt) -> set[OS]:
    sides: set[OS] = {attempt.source.os} if change.enforced_at != "target" else set()
    if change.enforced_at != "source" and attempt.target:
        sides |= {backend.os for backend in attempt.target.backends}
    return sides
