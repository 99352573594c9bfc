# SPDX-License-Identifier: Apache-2.0
"""Attempts under way: they leave when they are begun, and each result arrives when its attempt
ends.

One expectation asks through one :class:`Asking`.  Nothing arrives of attempts that it has given up:
no result, and no entry in a transcript.
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
    """The end of one attempt: exactly one of ``observation`` and ``error`` is there."""

    ticket: int
    observation: Observation | None = None
    error: Exception | None = None
    """ProbeBroken or EnvironmentBroken, after all retries."""


class Asking(Protocol):
    """One expectation's attempts under way.  Not thread-safe: it is used by one thread."""

    def begin(self, attempts: Sequence[Attempt]) -> list[int]:
        """Send attempts, and return at once with their tickets, which are unique in this Asking."""

    def next(self, within: float) -> Answered | None:
        """The next result, or None after so many seconds without one."""

    def waits(self, source: str) -> bool:
        """Whether some of a source's attempts have not left yet: its agent is being started, or has
        its hands full."""

    def cancel(self) -> None:
        """End everything that is under way; nothing of it is heard or written into any transcript
        later."""


@dataclass(eq=False)
class Inbox:
    """The place where the results of one Asking arrive, from any thread."""

    arrived: queue.SimpleQueue[Sequence[Answered]] = field(default_factory=queue.SimpleQueue)
    closed: bool = False
    """Nobody looks into it any more."""


@dataclass(eq=False)
class Pending:
    """One attempt until its result has arrived, or it has been given up."""

    ticket: int
    attempt: Attempt
    spec: dict[str, Any]
    """The attempt as the protocol describes it, without its id."""
    inbox: Inbox
    begun: float = field(default_factory=time.monotonic)
    tries: int = 0
    errors: list[str] = field(default_factory=list)
    """What broke, oldest first."""
    hopeless: bool = False
    """The newest error would come again."""

    def fail(self, error: Exception) -> None:
        """Report an error as the attempt's end."""
        self.inbox.arrived.put([Answered(self.ticket, error=error)])

    def broken(self) -> ProbeBroken:
        """Describe the errors of an attempt that is not tried again."""
        elapsed = time.monotonic() - self.begun
        times = f"{counted(self.tries, 'try', 'tries')} in {elapsed:.0f} s"
        transport = "\n".join(dict.fromkeys(self.errors))
        return ProbeBroken(f"{self.errors[-1]} ({times})", transport=transport)
