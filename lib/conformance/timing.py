"""Waiting, and the only place that sleeps: a deadline, :func:`until` (eventually) and :func:`hold` (for a while).

Both ask at least twice, keep every answer with its time, and fail nothing themselves: whoever calls them decides what
a wait that was not met means.  An exception from the question itself (a broken probe) is not an answer and passes
through, with a note of what had been answered before.  The clock can be replaced, so that tests need no time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_result, wait_fixed

T = TypeVar("T")

AT_LEAST = 2
"""Questions asked before a wait may end unmet: one answer alone is no evidence of a lasting state."""


class Clock(Protocol):
    """What waiting needs of time."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def sleep(self, seconds: float) -> None:
        """Let that many seconds pass."""


class SystemClock:
    """The machine's monotonic clock."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let that many seconds pass."""
        time.sleep(seconds)


SYSTEM_CLOCK = SystemClock()


class ImaginedClock(SystemClock):
    """Of a dry run: nothing that is waited for will happen, since nothing is changed.

    :func:`until` asks once by it, and takes what it sees for what it waits for.
    """


class Deadline:
    """A point in time that several steps share, so that their patience adds up to one budget."""

    def __init__(self, seconds: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self.seconds = seconds
        self._clock = clock
        self._begin = clock.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since it was set."""
        return self._clock.monotonic() - self._begin

    @property
    def remaining(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self.seconds - self.elapsed)

    @property
    def expired(self) -> bool:
        """Whether none are left."""
        return self.remaining == 0.0


@dataclass(frozen=True)
class Answer(Generic[T]):
    """One answer and when it came."""

    value: T
    asked_at: float
    """Seconds from the beginning of the wait to the question."""
    came_at: float
    """Seconds from the beginning of the wait to the answer."""
    accepted: bool


@dataclass(frozen=True)
class Settled(Generic[T]):
    """How a wait ended, with everything it saw."""

    met: bool
    answers: tuple[Answer[T], ...]
    first_correct_after: float | None
    """Seconds to the first accepted answer, whether it lasted or not; None: there was none."""
    stable_after: float | None
    """Seconds to the first of the agreeing answers that ended the wait; None: not met."""
    seconds: float
    """How long the wait took."""
    what: str

    @property
    def seen(self) -> tuple[T, ...]:
        """All answers, oldest first."""
        return tuple(answer.value for answer in self.answers)

    @property
    def last(self) -> T:
        """The newest answer."""
        return self.answers[-1].value


def until(
    observe: Callable[[], T],
    accept: Callable[[T], bool],
    *,
    within: float,
    what: str,
    agree: int = 1,
    every: float = 1.0,
    clock: Clock = SYSTEM_CLOCK,
    hopeless: Callable[[T], bool] = lambda _: False,
) -> Settled[T]:
    """Ask every ``every`` seconds until ``agree`` answers in a row are accepted, or ``within`` seconds are over.

    A row of accepted answers that began in time is let finish: slow questions must not turn agreement into failure.
    A ``hopeless`` answer, which is never an accepted one, ends the wait at once, unmet.
    """
    if agree < 1 or within < 0:
        raise ValueError(f"until({what}): agree must be at least 1 and within not negative")
    if isinstance(clock, ImaginedClock):
        seen = (Answer(observe(), 0.0, 0.0, accepted=True),)
        return Settled(met=True, answers=seen, first_correct_after=0.0, stable_after=0.0, seconds=0.0, what=what)
    wait = _Wait(observe, accept, Deadline(within, clock), what)

    def over() -> bool:
        return wait.row >= agree or hopeless(wait.answers[-1].value)

    wait.run(over, lambda: wait.deadline.expired and wait.row == 0, every, clock)
    met = wait.row >= agree
    return Settled(
        met=met,
        answers=tuple(wait.answers),
        first_correct_after=next((answer.came_at for answer in wait.answers if answer.accepted), None),
        stable_after=wait.answers[-wait.row].came_at if met else None,
        seconds=wait.deadline.elapsed,
        what=what,
    )


@dataclass(frozen=True)
class Held(Generic[T]):
    """Whether something lasted, with everything that was seen."""

    met: bool
    answers: tuple[Answer[T], ...]
    first_wrong_after: float | None
    """Seconds to the answer that was not accepted; None: all were."""
    seconds: float
    what: str

    @property
    def seen(self) -> tuple[T, ...]:
        """All answers, oldest first."""
        return tuple(answer.value for answer in self.answers)


def hold(
    observe: Callable[[], T],
    accept: Callable[[T], bool],
    *,
    seconds: float,
    what: str,
    every: float = 1.0,
    clock: Clock = SYSTEM_CLOCK,
) -> Held[T]:
    """Ask every ``every`` seconds for ``seconds`` seconds, and end at once with the first answer not accepted."""
    wait = _Wait(observe, accept, Deadline(seconds, clock), what)

    def wrong() -> bool:
        return not wait.answers[-1].accepted

    wait.run(wrong, lambda: wait.deadline.expired, every, clock)
    return Held(
        met=not wrong(),
        answers=tuple(wait.answers),
        first_wrong_after=wait.answers[-1].came_at if wrong() else None,
        seconds=wait.deadline.elapsed,
        what=what,
    )


class _Wait(Generic[T]):
    """The state of one wait: its answers, and how many of the newest were accepted in a row."""

    def __init__(self, observe: Callable[[], T], accept: Callable[[T], bool], deadline: Deadline, what: str) -> None:
        self.observe = observe
        self.accept = accept
        self.deadline = deadline
        self.what = what
        self.answers: list[Answer[T]] = []
        self.row = 0

    def ask(self) -> None:
        """One question, one answer more."""
        asked_at = self.deadline.elapsed
        try:
            value = self.observe()
            accepted = self.accept(value)
        except Exception as trouble:
            trouble.add_note(
                f"while waiting that {self.what}: {len(self.answers)} answers before this, "
                f"{self.row} of the newest accepted, {self.deadline.elapsed:.1f} s of {self.deadline.seconds:.1f} s"
            )
            raise
        self.answers.append(Answer(value, asked_at, self.deadline.elapsed, accepted))
        self.row = self.row + 1 if accepted else 0

    def run(self, done: Callable[[], bool], give_up: Callable[[], bool], every: float, clock: Clock) -> None:
        """Ask until ``done`` or, after at least two questions, ``give_up``."""

        def round_() -> bool:
            self.ask()
            return done()

        def stop(_: RetryCallState) -> bool:
            return len(self.answers) >= AT_LEAST and give_up()

        Retrying(
            retry=retry_if_result(lambda finished: not finished),
            stop=stop,
            wait=wait_fixed(every),
            sleep=clock.sleep,
            retry_error_callback=lambda _: None,
        )(round_)
