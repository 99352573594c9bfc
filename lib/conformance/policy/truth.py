# SPDX-License-Identifier: Apache-2.0
"""Three answers: True, False, and None if a part that decides cannot be read."""

from collections.abc import Iterable

Truth = bool | None


def all_of(several: Iterable[Truth]) -> Truth:
    """Return whether all statements are true; evaluates none after the first false statement."""
    found: Truth = True
    for one in several:
        if one is False:
            return False
        found = found and one
    return found


def any_of(several: Iterable[Truth]) -> Truth:
    """Return whether any statement is true; evaluates none after the first true statement."""
    found: Truth = False
    for one in several:
        if one:
            return True
        found = None if one is None else found
    return found


def negated(one: Truth) -> Truth:
    """Return whether a statement does not hold."""
    return None if one is None else not one
