"""Rounds of attempts until all are as they are to be, N times in a row, and then for a while where some are to fail.

Routes that are to be closed have to stay so from then on: one answer there is a leak, and ends the watch.  Routes that
are to be open may lose a connection while they are watched, as they may before: they have what is left of the budget to
agree again, and are then watched anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.expect.answered import as_wanted
from conformance.model.observation import Observation
from conformance.settings import OsTimings
from conformance.timing import Clock, Deadline, Settled, hold, until

Round = list[Observation]
"""One observation per attempt."""


@dataclass(frozen=True)
class Watched:
    """How it ended, with everything that was seen."""

    met: bool
    settled: Settled[Round]
    """How they agreed for the first time."""
    rounds: list[Round]
    """All of them, oldest first; the newest ones agree where ``met``."""
    seconds: float


def watch(
    observe: Callable[[], Round], wanted: Sequence[bool], *, patience: Sequence[OsTimings], because: str, clock: Clock
) -> Watched:
    """Ask until each observation is of an open route, or of a closed one, as ``wanted``, and this holds."""
    agree, every = max(one.agree for one in patience), min(one.poll_every for one in patience)
    lasting = max(one.hold for one in patience)
    budget = Deadline(max(one.policy_effect for one in patience), clock)

    def right(round_: Round) -> bool:
        return all(as_wanted(one, want) for one, want in zip(round_, wanted, strict=True))

    def leaks(round_: Round) -> bool:
        return not all(want or as_wanted(one, want) for one, want in zip(round_, wanted, strict=True))

    settled = until(observe, right, within=budget.seconds, agree=agree, every=every, what=because, clock=clock)
    rounds, met, last_chance = list(settled.seen), settled.met, False
    while met and not all(wanted):
        held = hold(observe, right, seconds=lasting, every=every, what=because, clock=clock)
        rounds += held.seen
        met = held.met
        if met or last_chance or leaks(rounds[-1]):
            break
        last_chance = budget.expired
        again = until(
            observe, right, within=budget.remaining, agree=agree, every=every, what=because, clock=clock, hopeless=leaks
        )
        rounds += again.seen
        met = again.met
    return Watched(met=met, settled=settled, rounds=rounds, seconds=budget.elapsed)
