# SPDX-License-Identifier: Apache-2.0
"""Figures of many tests become counts by direction and percentiles by operating system."""

from __future__ import annotations

from conformance.model.figures import Effect, Figures, Tries
from conformance.report.statistics import Spread, lines, statistics


def closed(seconds: float, exposure: float = 0.0, change: str = "") -> Effect:
    return Effect(
        change=change or f"policy {seconds}", os="windows", wanted="closed", first_correct=seconds, stable=seconds + 1,
        exposure=exposure,
    )  # fmt: skip


def test_tries_of_all_tests_add_up_by_direction() -> None:
    found = statistics(
        [
            Figures(tries=(Tries(direction="linux->windows", tries=1, attempts=3),)),
            Figures(
                tries=(
                    Tries(direction="linux->windows", tries=1, attempts=1),
                    Tries(direction="linux->windows", tries=4, attempts=2, resent=5),
                )
            ),
        ]
    )
    tried = found.tries["linux->windows"]
    assert (tried.attempts, tried.by_tries, tried.resent) == (6, {1: 4, 4: 2}, 5)
    assert lines(found) == [
        "convergence linux->windows: 4/6 on first try, 2 after 4 tries; 5 sent again"
    ]


def test_percentiles_are_durations_that_were_seen() -> None:
    found = statistics([Figures(effects=tuple(closed(float(number)) for number in range(1, 21)))])
    effect = found.policy_effect["windows closed"]
    assert effect.first_correct == Spread(p50=10.0, p95=19.0, max=20.0)
    assert effect.stable == Spread(p50=11.0, p95=20.0, max=21.0)
    assert effect.changes == 20


def test_one_duration_is_every_percentile() -> None:
    found = statistics([Figures(effects=(closed(0.5, exposure=0.2),))])
    assert found.policy_effect["windows closed"].exposure == Spread(p50=0.2, p95=0.2, max=0.2)


def test_nothing_taken_down_says_nothing() -> None:
    assert lines(statistics([Figures()])) == []
