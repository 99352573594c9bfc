# SPDX-License-Identifier: Apache-2.0
"""Counts with their noun, for messages that people read: ``1 agent``, ``2 agents``."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return the number and the noun in the form that goes with it; ``plural`` where that is more
    than an added ``s``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
