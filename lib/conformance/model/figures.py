# SPDX-License-Identifier: Apache-2.0
"""Figures of a run: the tries of attempts, and how long policy changes took to have an effect.

They are data for reports and comparisons between releases; nothing is judged by them.
"""

from dataclasses import dataclass

from conformance.model.endpoint import OS


@dataclass(frozen=True, kw_only=True)
class Tries:
    """The number of attempts in a direction until they were as expected to the end."""

    direction: str
    """``linux->windows``: operating systems of source and target; ``linux->-`` where the target is
    no pod."""
    tries: int
    """1: as expected from the first round on."""
    attempts: int
    """The number of attempts that needed this many tries."""
    resent: int = 0
    """How often an attempt was sent again because the connection to the probe had broken."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The time until a policy change took effect, on nodes of an operating system.

    Seconds from the API server's acceptance.  A denial counts from when its attempt was sent, not
    from when it was given up; a connection from when it was established.
    """

    change: str
    """``NetworkPolicy ns/allow-friend (projectcalico.org/v3)``."""
    os: OS
    """The operating system of the node that enforces it."""
    wanted: str
    """``closed`` or ``open``: what the change was to make of paths that were the other before."""
    first_correct: float
    """s.  To the first right observation of the slowest path."""
    stable: float
    """s.  To the first of those right observations after which none was wrong."""
    exposure: float | None = None
    """s.  To the last connection that still got through; 0: none did after the change.  Only for
    ``closed``."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """All figures of a test."""

    tries: tuple[Tries, ...] = ()
    effects: tuple[Effect, ...] = ()
