# SPDX-License-Identifier: Apache-2.0
"""Waits until everything that a change requires exists."""

from collections.abc import Callable, Sequence

from conformance.errors import EnvironmentBroken
from conformance.timing import Clock, until


def until_nothing_is_missing(
    missing: Callable[[], Sequence[str]],
    *,
    within: float,
    every: float,
    description: str,
    late: str,
    clock: Clock,
) -> float:
    """Wait until ``missing`` returns nothing, and return the seconds that this took. ``missing`` is
    called every ``every`` seconds.

    Raise EnvironmentBroken after ``within`` seconds. Its message has the text ``late``, the
    seconds, and what is still missing.
    """
    settled = until(
        missing,
        lambda left: not left,
        within=within,
        every=every,
        description=description,
        clock=clock,
    )
    if not settled.converged:
        raise EnvironmentBroken(f"{late} within {settled.seconds:.0f} s: {'; '.join(settled.last)}")
    return settled.seconds
