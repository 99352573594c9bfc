# SPDX-License-Identifier: Apache-2.0
"""Rounds of attempts: all attempts are made together, repeatedly, until enough rounds in a row are
right.

This module serves expectations about whole answers: a page, a name's addresses, packets between
nodes. Open and closed paths are decided path by path, by :mod:`conformance.expect.engine.decide`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from conformance.errors import ControlBroken, Nonconformance
from conformance.expect.context import End
from conformance.expect.explain import message
from conformance.expect.session import Session
from conformance.model.attempt import Attempt
from conformance.model.endpoint import OS, Workload
from conformance.model.explanation import Explanation
from conformance.model.observation import Observation
from conformance.settings import OsTimings
from conformance.timing import Settled, until


@dataclass(frozen=True, kw_only=True)
class Polled:
    """The observations of all rounds."""

    claims: tuple[str, ...]
    because: str
    attempts: Sequence[Attempt]
    agree: int
    settled: Settled[list[Observation]]

    @property
    def converged(self) -> bool:
        """Return whether enough rounds in a row were right."""
        return self.settled.converged

    def __iter__(self) -> Iterator[tuple[Attempt, list[Observation]]]:
        """Yield each attempt with its observations, oldest first."""
        return ((attempt, self.observations(index)) for index, attempt in enumerate(self.attempts))

    def observations(self, index: int) -> list[Observation]:
        """Return the observations of an attempt, oldest first."""
        return [round_[index] for round_ in self.settled.observations]

    def agreed(self, index: int, right: Callable[[Observation], bool]) -> bool:
        """Return whether the newest :attr:`agree` answers to an attempt are all right."""
        newest = self.observations(index)[-self.agree :]
        return len(newest) == self.agree and all(map(right, newest))

    def cases(self) -> list[tuple[Workload, End, int]]:
        """Return source, target and index of each attempt, for a check."""
        return [
            (attempt.source, attempt.target, place) for place, attempt in enumerate(self.attempts)
        ]

    def nonconformance(
        self, index: int, expected: str, further: Mapping[str, str], *, observed: str = ""
    ) -> Nonconformance:
        """Return the Nonconformance for an attempt; the arguments are those of :meth:`message`."""
        return Nonconformance(
            self.message(index, expected, further, observed=observed),
            observations=self.observations(index),
        )

    def broken_control(
        self, index: int, expected: str, further: Mapping[str, str], *, so: str = ""
    ) -> ControlBroken:
        """Return the ControlBroken for an attempt that is a control; the arguments are those of
        :meth:`message`."""
        return ControlBroken(
            message.of_control(self.message(index, expected, further, so=so)),
            control=self.attempts[index].label,
            observations=self.observations(index),
        )

    def message(
        self,
        index: int,
        expected: str,
        further: Mapping[str, str],
        *,
        observed: str = "",
        so: str = "",
    ) -> Explanation:
        """Return the whole message about an attempt; the arguments are those of
        ``explain.message.explanation``."""
        return message.explanation(
            self.claims,
            self.attempts[index],
            expected=expected,
            because=self.because,
            observations=self.observations(index),
            seconds=self.settled.seconds,
            further=further,
            observed=observed,
            so=so,
        )


def poll(
    expect: Session,
    attempts: Sequence[Attempt],
    right: Callable[[Sequence[Observation]], bool],
    *,
    because: str,
    within: Callable[[OsTimings], float] = lambda patience: patience.service_effect,
    all_timings: Sequence[OsTimings] = (),
    of_open_paths: bool = False,
) -> Polled:
    """Make all attempts at once, again and again, until enough rounds are ``right``.

    The slowest of ``all_timings`` determine the time limits; empty: the timings of the paths' ends.
    ``within``: selects the time for the rounds from these limits. If the newest round at the end of
    this time is right, more rounds may follow until enough rounds agree. ``of_open_paths``: a round
    is right if every attempt gets an answer, so rounds follow each other at the pace of attempts at
    open paths.
    """
    all_timings = all_timings or patience(expect, attempts)
    agree = max(timings.agree for timings in all_timings)
    settled = until(
        lambda: expect.prober.observe(attempts),
        right,
        within=max(map(within, all_timings)),
        agree=agree,
        every=min(timings.poll_every for timings in all_timings),
        agree_every=min(
            timings.open_every if of_open_paths else timings.agree_every for timings in all_timings
        ),
        description=because,
        clock=expect.clock,
        more=expect.context.pace.machine.more,
    )
    return Polled(
        claims=expect.context.claims,
        because=because,
        attempts=attempts,
        agree=agree,
        settled=settled,
    )


def patience(expect: Session, attempts: Sequence[Attempt]) -> list[OsTimings]:
    """Return the timings of the sources of some attempts, and of the pods behind their targets."""
    systems: set[OS] = {attempt.source.os for attempt in attempts}
    systems |= {
        backend.os for attempt in attempts if attempt.target for backend in attempt.target.backends
    }
    return [expect.timings.of(system) for system in sorted(systems)]
