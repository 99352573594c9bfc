# SPDX-License-Identifier: Apache-2.0
"""Attempts under way: each is sent when it begins, and each result arrives when its attempt ends.

Each expectation uses one :class:`Asking`. Attempts that an Asking has given up leave no result and
no entry in a transcript.
"""

import queue
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from conformance.errors import ProbeBroken
from conformance.model.attempt import Attempt
from conformance.model.counted import counted
from conformance.model.observation import Observation


@dataclass(frozen=True)
class Answered:
    """The end of an attempt: exactly one of ``observation`` and ``error`` is set."""

    ticket: int
    observation: Observation | None = None
    error: Exception | None = None
    """ProbeBroken or EnvironmentBroken, after all retries."""


class Asking(Protocol):
    """An expectation's attempts under way. Not thread-safe: it is used by one thread."""

    def begin(self, attempts: Sequence[Attempt]) -> list[int]:
        """Send attempts, and return at once with their tickets, which are unique in this Asking."""

    def next(self, within: float) -> Answered | None:
        """Return the next result, or None after ``within`` seconds without one."""

    def waits(self, source: str) -> bool:
        """Return whether attempts of a source have not been sent yet, because its agent is being
        started or busy."""

    def cancel(self) -> None:
        """End all attempts under way. Their results are not returned, nor written into a
        transcript."""


@dataclass(eq=False)
class Inbox:
    """The place where the results of an Asking arrive, from any thread."""

    arrived: queue.SimpleQueue[Sequence[Answered]] = field(default_factory=queue.SimpleQueue)
    closed: bool = False
    """The inbox's results are no longer read."""


@dataclass(eq=False)
class Pending:
    """An attempt whose result has not arrived yet, and that has not been given up."""

    ticket: int
    attempt: Attempt
    spec: dict[str, Any]
    """The attempt as the protocol describes it, without its id."""
    inbox: Inbox
    begun: float = field(default_factory=time.monotonic)
    tries: int = 0
    errors: list[str] = field(default_factory=list)
    """Errors, oldest first."""
    hopeless: bool = False
    """Another attempt would give the newest error again."""

    def fail(self, error: Exception) -> None:
        """Deliver an error as the attempt's result."""
        self.inbox.arrived.put([Answered(self.ticket, error=error)])

    def broken(self) -> ProbeBroken:
        """Return the error that describes all errors of an attempt that is not repeated."""
        elapsed = time.monotonic() - self.begun
        times = f"{counted(self.tries, 'try', 'tries')} in {elapsed:.0f} s"
        transport = "\n".join(dict.fromkeys(self.errors))
        return ProbeBroken(f"{self.errors[-1]} ({times})", transport=transport)
