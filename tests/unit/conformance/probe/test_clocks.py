# SPDX-License-Identifier: Apache-2.0
"""An agent's clock is converted to the suite's by the times of a request and its answer, and not
more exactly than these allow."""

from __future__ import annotations

import math

import pytest

from conformance.probe.clocks import DRIFT, AgentClock


def test_before_the_agent_has_said_anything_its_moments_are_no_more_than_a_bound() -> None:
    assert AgentClock("a", asked=100.0).place(2.0) == (102.0, math.inf)


def test_the_true_moment_lies_within_what_is_said_of_the_estimate() -> None:
    clock = AgentClock("a", asked=100.0)  # the agent truly starts at 101.5
    clock.record_line(up=0.5, received=102.4)  # written at 102.0
    placed, error = clock.place(3.0)
    assert (placed, error) == pytest.approx((103.95, 0.95), abs=0.001)
    assert abs(104.5 - placed) <= error


def test_each_line_and_each_attempt_makes_the_estimate_better_and_none_worse() -> None:
    clock = AgentClock("a", asked=100.0)
    clock.record_line(up=0.5, received=102.4)
    errors = [clock.place(0.0)[1]]
    for now, up, own in ((102.5, 0.99, 1.01), (102.6, 1.09, 1.11)):
        clock.record_begin(own, asked=now)
        clock.record_line(up, received=now + 0.01)
        errors.append(clock.place(0.0)[1])
    assert errors == sorted(errors, reverse=True)
    placed, error = clock.place(1.0)
    assert error < 0.05
    assert abs(102.5 - placed) <= error


def test_what_was_known_becomes_less_sure_with_the_hours() -> None:
    clock = AgentClock("a", asked=100.0)
    clock.record_line(up=0.0, received=100.0)
    clock.record_begin(0.0, asked=100.0)
    clock.record_line(up=3000.0, received=3700.0)  # a line that was long under way
    assert abs(clock.place(0.0)[1] - 3600 * DRIFT) < 1e-9


def test_a_clock_that_stepped_is_believed_as_it_is_now() -> None:
    clock = AgentClock("a", asked=100.0)
    clock.record_line(up=1.0, received=101.0)
    clock.record_line(up=500.0, received=102.0)  # its machine slept, or ours did
    assert abs(clock.place(500.0)[0] - 102.0) < 0.01
    clock.record_begin(3.0, asked=103.0)
    assert abs(clock.place(3.0)[0] - 103.0) < 0.01
