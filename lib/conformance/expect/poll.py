# SPDX-License-Identifier: Apache-2.0
"""Attempts that are made together, again and again, until as many rounds as verdicts must agree are right.

For what an expectation decides by whole answers: a page, a name's addresses, what passes between nodes.  Whether paths
are open or closed is decided one by one, by :mod:`conformance.expect.engine.decide`.
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
    """What the rounds showed."""

    claims: tuple[str, ...]
    because: str
    attempts: Sequence[Attempt]
    agree: int
    settled: Settled[list[Observation]]

    @property
    def converged(self) -> bool:
        """Whether enough rounds in a row were right."""
        return self.settled.converged

    def __iter__(self) -> Iterator[tuple[Attempt, list[Observation]]]:
        """Each attempt with what it showed, oldest first."""
        return ((attempt, self.seen(index)) for index, attempt in enumerate(self.attempts))

    def seen(self, index: int) -> list[Observation]:
        """What one of the attempts showed, oldest first."""
        return [round_[index] for round_ in self.settled.seen]

    def agreed(self, index: int, right: Callable[[Observation], bool]) -> bool:
        """Whether the newest answers to one of the attempts are right, as many as must agree."""
        newest = self.seen(index)[-self.agree :]
        return len(newest) == self.agree and all(map(right, newest))

    def cases(self) -> list[tuple[Workload, End, int]]:
        """Return source, target and place of each attempt, for a check."""
        return [(one.source, one.target, place) for place, one in enumerate(self.attempts)]

    def nonconformance(
        self, index: int, expected: str, further: Mapping[str, str], *, observed: str = ""
    ) -> Nonconformance:
        """Return the failure of one of them; arguments as of :meth:`message`."""
        return Nonconformance(
            self.message(index, expected, further, observed=observed), seen=self.seen(index)
        )

    def broken_control(
        self, index: int, expected: str, further: Mapping[str, str], *, so: str = ""
    ) -> ControlBroken:
        """Return that one of them is a control that failed; arguments as of :meth:`message`."""
        return ControlBroken(
            message.of_control(self.message(index, expected, further, so=so)),
            control=self.attempts[index].label,
            seen=self.seen(index),
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
        """The whole message about one of them; arguments as of ``explain.message.explanation``."""
        return message.explanation(
            self.claims,
            self.attempts[index],
            expected=expected,
            because=self.because,
            seen=self.seen(index),
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
    several: Sequence[OsTimings] = (),
) -> Polled:
    """Make all attempts at once until enough rounds are ``right``, with the patience that the slowest end needs.

    ``within``: for how long of it rounds are made; one that is right by then is let agree.
    ``several``: the patience of other ends than all of those of the paths.
    """
    several = several or patience(expect, attempts)
    agree = max(timings.agree for timings in several)
    settled = until(
        lambda: expect.prober.observe(attempts),
        right,
        within=max(map(within, several)),
        agree=agree,
        every=min(timings.poll_every for timings in several),
        agree_every=min(timings.agree_every for timings in several),
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
    """The patience that the sources of some attempts, and the pods behind their targets, need."""
    systems: set[OS] = {attempt.source.os for attempt in attempts}
    systems |= {
        backend.os for attempt in attempts if attempt.target for backend in attempt.target.backends
    }
    return [expect.timings.of(system) for system in sorted(systems)]
