# SPDX-License-Identifier: Apache-2.0
"""Counts and lengths of time for messages that people read: ``1 agent``, ``2 agents``, ``40 s``,
``12 min``."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return the number with the noun in singular or plural; ``plural`` if the plural is not the
    noun with an ``s``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def lasting(seconds: float) -> str:
    """Return a length of time: in seconds below a minute and a half, else in minutes."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
