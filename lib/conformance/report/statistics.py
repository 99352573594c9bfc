# SPDX-License-Identifier: Apache-2.0
"""Attempts by direction and the effect of policy changes by operating system, over all tests of a
run."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from conformance.model.by_key import by_key
from conformance.model.counted import counted
from conformance.model.figures import Effect, Figures


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Percentiles of some durations, in seconds."""

    p50: float
    p95: float
    max: float


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The attempts in a direction."""

    attempts: int
    by_tries: Mapping[int, int]
    """The number of paths that needed a number of attempts until they stayed as expected, by this
    number of attempts."""
    resent: int
    """The number of attempts that were sent again because the connection to the probe had
    broken."""


@dataclass(frozen=True, kw_only=True)
class PolicyEffect:
    """Policy changes with the same effect (opened or closed), enforced by nodes of the same
    operating system."""

    changes: int
    first_correct: Spread
    stable: Spread
    exposure: Spread | None
    """The time for which traffic still passed after a change that closes a path."""


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """The statistics of a run."""

    tries: Mapping[str, Tried]
    """The attempts by direction, ``linux->windows``."""
    policy_effect: Mapping[str, PolicyEffect]
    """The effects by operating system and kind of change: ``windows closed``."""


def statistics(figures: Iterable[Figures]) -> Statistics:
    """Return the statistics of all tests' records."""
    given = list(figures)
    by_tries: dict[str, Counter[int]] = defaultdict(Counter)
    resent: Counter[str] = Counter()
    for tries in (entry for each in given for entry in each.tries):
        by_tries[tries.direction][tries.tries] += tries.attempts
        resent[tries.direction] += tries.resent
    effects = by_key(
        (f"{effect.os} {effect.wanted}", effect) for each in given for effect in each.effects
    )
    return Statistics(
        tries={
            way: Tried(
                attempts=sum(counts.values()),
                by_tries=dict(sorted(counts.items())),
                resent=resent[way],
            )
            for way, counts in sorted(by_tries.items())
        },
        policy_effect={name: _effect(found) for name, found in sorted(effects.items())},
    )


def lines(found: Statistics) -> list[str]:
    """Return the lines for the terminal; none if nothing was recorded."""
    text_lines = []
    for way, tried in found.tries.items():
        late = {number: count for number, count in tried.by_tries.items() if number > 1}
        more = ", ".join(f"{count} after {number} tries" for number, count in late.items())
        again = f"; {tried.resent} sent again" if tried.resent else ""
        text_lines.append(
            f"convergence {way}: {tried.by_tries.get(1, 0)}/{tried.attempts} on first try{more and f', {more}'}{again}"
        )
    for name, effect in found.policy_effect.items():
        exposure = f", open for {_shown(effect.exposure)} after it" if effect.exposure else ""
        text_lines.append(
            f"policy {name}: {counted(effect.changes, 'change')}, in effect after {_shown(effect.first_correct)}, "
            f"stable after {_shown(effect.stable)}{exposure} (p50/p95/max)"
        )
    return text_lines


def _effect(found: Sequence[Effect]) -> PolicyEffect:
    exposures = [effect.exposure for effect in found if effect.exposure is not None]
    return PolicyEffect(
        changes=len({effect.change for effect in found}),
        first_correct=_spread([effect.first_correct for effect in found]),
        stable=_spread([effect.stable for effect in found]),
        exposure=_spread(exposures) if exposures else None,
    )


def _spread(values: Sequence[float]) -> Spread:
    """Return nearest-rank percentiles: each is a duration that was really measured."""
    ordered = sorted(values)

    def rank(share: float) -> float:
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    return Spread(p50=rank(0.5), p95=rank(0.95), max=ordered[-1])


def _shown(spread: Spread) -> str:
    return f"{spread.p50:.2f}/{spread.p95:.2f}/{spread.max:.2f} s"
