# SPDX-License-Identifier: Apache-2.0
"""Figures of a run: the number of attempts that paths needed, and how long policy changes took to
have an effect.

They are data for reports and comparisons between releases; nothing is judged by them.
"""

from dataclasses import dataclass

from conformance.model.endpoint import OS


@dataclass(frozen=True, kw_only=True)
class Tries:
    """The number of attempts that some paths of a direction needed until all further attempts were
    as expected."""

    direction: str
    """The operating systems of source and target, ``linux->windows``; ``linux->-`` if the target is
    no pod."""
    tries: int
    """The number of the first attempt from which on every result was as expected; 1: every result
    of the path was as expected."""
    attempts: int
    """The number of paths that needed this number of attempts."""
    resent: int = 0
    """How often an attempt was sent again because the connection to the probe had broken."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The time until a policy change took effect, on nodes of an operating system.

    The time is counted in seconds from the API server's acceptance. A denial counts from the time
    its attempt was sent, not from the time it was given up; a connection counts from the time it
    was established.
    """

    change: str
    """``NetworkPolicy ns/allow-friend (projectcalico.org/v3)``."""
    os: OS
    """The operating system of the node that enforces the policy."""
    wanted: str
    """``closed`` or ``open``: the state that the change should give to paths that were in the other
    state before."""
    first_correct: float
    """Seconds to the first right observation of the slowest path."""
    stable: float
    """Seconds to the first right observation after which no observation was wrong."""
    exposure: float | None = None
    """Seconds to the last connection that was still established; 0: no connection was established
    after the change. Only for ``closed``."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """All figures of a test."""

    tries: tuple[Tries, ...] = ()
    effects: tuple[Effect, ...] = ()
