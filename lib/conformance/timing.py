# SPDX-License-Identifier: Apache-2.0
"""The suite's waits. No other module sleeps. :func:`until` waits for a state; :func:`hold` observes
that it lasts.

Both observe at least twice, and keep every answer with its time. Neither of them raises if the wait
does not converge: the caller decides what that means. An exception from an observation (a broken
probe) is no answer: it is raised, with a note of the earlier answers. The clock can be replaced, so
that tests need no time.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_result

from conformance.model.counted import counted

T = TypeVar("T")

AT_LEAST = 2
"""The least number of observations before a wait may end unconverged, since a single answer is no
evidence of a lasting state."""


class Clock(Protocol):
    """The clock that waits need."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def sleep(self, seconds: float) -> None:
        """Wait for this number of seconds."""


class SystemClock:
    """The machine's monotonic clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


SYSTEM_CLOCK = SystemClock()


class ImaginedClock(SystemClock):
    """The clock of a dry run, in which awaited events do not happen, since nothing is changed.

    :func:`until` tries once, and accepts any answer.
    """


class Deadline:
    """A point in time that several steps share, so that their time-outs fit into a single
    budget."""

    def __init__(self, seconds: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self.seconds = seconds
        self._clock = clock
        self._begin = clock.monotonic()

    @property
    def elapsed(self) -> float:
        return self._clock.monotonic() - self._begin

    @property
    def remaining(self) -> float:
        """Return the seconds left, never below 0."""
        return max(0.0, self.seconds - self.elapsed)

    @property
    def expired(self) -> bool:
        return self.remaining == 0.0


@dataclass(frozen=True)
class Answer(Generic[T]):
    """An answer and the time of its request."""

    value: T
    asked_at: float
    """The seconds from the beginning of the wait to this observation."""
    accepted: bool


@dataclass(frozen=True)
class Settled(Generic[T]):
    """The end of a wait, with all its answers."""

    converged: bool
    answers: tuple[Answer[T], ...]
    seconds: float
    """How long the wait took."""
    description: str

    @property
    def observations(self) -> tuple[T, ...]:
        """Return all answers, oldest first."""
        return tuple(answer.value for answer in self.answers)

    @property
    def last(self) -> T:
        return self.answers[-1].value


def until(
    observe: Callable[[], T],
    accept: Callable[[T], bool],
    *,
    within: float,
    description: str,
    agree: int = 1,
    every: float = 1.0,
    agree_every: float | None = None,
    clock: Clock = SYSTEM_CLOCK,
    hopeless: Callable[[T], bool] = lambda _: False,
    more: Callable[[float, float], float] = lambda within, began: 0.0,
) -> Settled[T]:
    """Observe every ``every`` seconds until ``agree`` answers in a row are accepted, or ``within``
    seconds are over.

    ``agree_every``: the pause after an accepted answer, and after the first answer that is not
    accepted; None: ``every``. After each further answer that is not accepted, the pause doubles, up
    to ``every``. A run of accepted answers that began in time may finish: slow observations must
    not turn agreement into failure. A ``hopeless`` answer, which is never an accepted answer, ends
    the wait at once, unconverged. ``more``: called once after ``within`` is over, with ``within``
    and the wait's start by the clock; returns further seconds.
    """
    if agree < 1 or within < 0:
        raise ValueError(f"until({description}): agree must be at least 1 and within not negative")
    if isinstance(clock, ImaginedClock):
        answers = (Answer(observe(), 0.0, accepted=True),)
        return Settled(converged=True, answers=answers, seconds=0.0, description=description)
    wait = _Wait(observe, accept, Deadline(within, clock), description)
    began = clock.monotonic()

    def given_up() -> bool:
        if not wait.deadline.expired or wait.consecutive:
            return False
        if wait.deadline.seconds == within:
            wait.deadline.seconds += more(within, began)
        return wait.deadline.expired

    def over() -> bool:
        return wait.consecutive >= agree or hopeless(wait.answers[-1].value)

    after_accepted = after_another = every if agree_every is None else agree_every

    def pause() -> float:
        nonlocal after_another
        if wait.consecutive:
            return after_accepted
        now = after_another
        after_another = min(every, 2 * after_another)
        return now

    wait.run(over, given_up, pause, clock)
    return wait.settled(converged=wait.consecutive >= agree)


def hold(
    observe: Callable[[], T],
    accept: Callable[[T], bool],
    *,
    seconds: float,
    description: str,
    every: float = 1.0,
    clock: Clock = SYSTEM_CLOCK,
) -> Settled[T]:
    """Observe every ``every`` seconds for ``seconds`` seconds, and end at once with the first
    answer that is not accepted.

    The result has ``converged`` if the state lasted.
    """
    wait = _Wait(observe, accept, Deadline(seconds, clock), description)
    wait.run(
        lambda: not wait.answers[-1].accepted, lambda: wait.deadline.expired, lambda: every, clock
    )
    return wait.settled(converged=wait.answers[-1].accepted)


class _Wait(Generic[T]):
    """The state of a wait: its answers, and how many of the newest were accepted in a row."""

    def __init__(
        self,
        observe: Callable[[], T],
        accept: Callable[[T], bool],
        deadline: Deadline,
        description: str,
    ) -> None:
        self.observe = observe
        self.accept = accept
        self.deadline = deadline
        self.description = description
        self.answers: list[Answer[T]] = []
        self.consecutive = 0

    def ask(self) -> None:
        """Ask once and keep the answer."""
        asked_at = self.deadline.elapsed
        try:
            value = self.observe()
            accepted = self.accept(value)
        except Exception as error:
            error.add_note(
                f"while waiting until {self.description}: {counted(len(self.answers), 'answer')} "
                "before, "
                f"{self.consecutive} accepted in a row, {self.deadline.elapsed:.1f} of {self.deadline.seconds:.1f} s"
            )
            raise
        self.answers.append(Answer(value, asked_at, accepted))
        self.consecutive = self.consecutive + 1 if accepted else 0

    def settled(self, *, converged: bool) -> Settled[T]:
        """Return the end of the wait."""
        return Settled(converged, tuple(self.answers), self.deadline.elapsed, self.description)

    def run(
        self,
        done: Callable[[], bool],
        give_up: Callable[[], bool],
        pause: Callable[[], float],
        clock: Clock,
    ) -> None:
        """Observe until ``done`` or, after at least two observations, until ``give_up``."""

        def round_() -> bool:
            self.ask()
            return done()

        def stop(_: RetryCallState) -> bool:
            return len(self.answers) >= AT_LEAST and give_up()

        Retrying(
            retry=retry_if_result(lambda finished: not finished),
            stop=stop,
            wait=lambda _: pause(),
            sleep=clock.sleep,
            retry_error_callback=lambda _: None,
        )(round_)
