# SPDX-License-Identifier: Apache-2.0
"""First lines name the nodes that differ from their peers, and advice follows what they say."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from conformance.errors import ControlBroken
from conformance.expect.engine import decide
from conformance.expect.engine.decide import BrokenControl, Held, Standing, Wrong
from conformance.expect.engine.path import Why
from conformance.expect.explain.advice import Side
from conformance.expect.failure import failure
from conformance.expect.observed_paths import ObservedPaths
from conformance.expect.outcome import Outcome
from conformance.model.endpoint import Workload
from conformance.model.observation import Verdict
from tests.unit.conformance.expect.failing import Cluster, Route, pod

UP, DROPPED = Verdict.CONNECTED, Verdict.TIMED_OUT
LINUX, WINDOWS = pod("one", "linux-1", 1), pod("two", "windows-2", 2)
ENDS = [pod("a", "linux-1", 3), pod("b", "windows-2", 4), pod("c", "windows-3", 5)]


def outcomes(
    client: Workload, standing: Standing, verdict: Verdict, *, want: bool, at: Side | None = None
) -> list[Outcome]:
    """From one client to every server."""
    paths = [Route(end.tcp(8080), (verdict,) * 4, client).path(want=want) for end in ENDS]
    return [Outcome(path, standing, False, because="it is so", at=at) for path in paths]


def held(client: Workload, *, want: bool) -> list[Outcome]:
    verdict = UP if want else DROPPED
    return [
        replace(each, standing=Held(tuple(each.path.tries)))
        for each in outcomes(client, decide.Wrong(Why.OPEN), verdict, want=want)
    ]


def told(some: list[Outcome], *, opened: bool = True) -> tuple[str, str]:
    """Return the first line and the advice."""
    expect = Cluster(side="both").expecting(LINUX)
    for outcome in some if opened else ():
        attempt = outcome.path.attempt
        assert attempt.target
        expect.context.since[attempt.source.uid, attempt.target.label, True] = 1.0
    error = failure(expect, some, seconds=9.0)
    assert error is not None
    (do,) = [line for line in str(error).splitlines() if line.startswith("  do ")]
    return str(error).splitlines()[0], do


def test_a_leak_of_one_clients_node_is_said_of_that_node_and_not_of_the_servers() -> None:
    leaks = outcomes(WINDOWS, Wrong(Why.OPEN), UP, want=False)
    first, do = told([*leaks, *held(LINUX, want=False)])
    assert "CONN-3: windows-2 does not enforce the policy" in first
    assert "node windows-2 (source)" in do
    assert "linux-1" not in do


def test_a_row_says_the_end_that_enforces_it() -> None:
    leaks = outcomes(WINDOWS, Wrong(Why.OPEN), UP, want=False, at="target")
    first, _ = told([*leaks, *held(LINUX, want=False)])
    assert "linux-1, windows-2 and windows-3 do not enforce the policy" in first


def test_what_worked_before_a_policy_and_is_closed_under_it_is_said_of_policy() -> None:
    shut = outcomes(WINDOWS, Wrong(Why.CLOSED), DROPPED, want=True)
    first, do = told([*shut, *held(LINUX, want=True)])
    assert "windows-2 closes what the policy allows" in first
    assert "read Felix' log on node windows-2 (source)" in do


@pytest.mark.parametrize(("opened", "beside"), [(False, True), (True, False)])
def test_what_never_worked_or_lost_every_path_is_said_of_the_network(
    *, opened: bool, beside: bool
) -> None:
    shut = outcomes(WINDOWS, Wrong(Why.CLOSED), DROPPED, want=True)
    some = [*shut, *(held(LINUX, want=True) if beside else ())]
    assert "windows-2 do not reach pods on" in told(some, opened=opened)[0]


def test_an_open_path_that_worked_and_wavers_under_a_policy_is_a_control_with_its_pods_age() -> (
    None
):
    created = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=90)
    old = replace(WINDOWS, created=created.isoformat())
    lossy = outcomes(old, Wrong(Why.WAVERS), DROPPED, want=True)
    observed = ObservedPaths()
    observed.lose_controls(lossy)
    assert [each.standing for each in lossy] == [Wrong(Why.WAVERS)] * 3  # it never worked
    for each in lossy:
        observed.remember(each.path, None)
    observed.lose_controls(lossy)
    assert [each.standing for each in lossy] == [BrokenControl(Why.WAVERS)] * 3
    error = failure(Cluster(side="both").expecting(old), lossy, seconds=9.0)
    assert isinstance(error, ControlBroken)
    assert "age       pod ns/two is 9" in str(error)
