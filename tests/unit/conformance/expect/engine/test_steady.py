# SPDX-License-Identifier: Apache-2.0
"""A path that loses a part of its connections is not open: what it takes to say that one which wavered is."""

from __future__ import annotations

from dataclasses import replace

from conformance.expect.engine.ask import ask
from conformance.expect.engine.decide import (
    BrokenControl,
    Held,
    NotYet,
    Standing,
    Wrong,
    conclude,
    decide,
)
from conformance.expect.engine.path import STEADY, Path, Try, Why
from conformance.model.attempt import Kind
from conformance.model.observation import Observation, Verdict
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_path, a_workload
from tests.unit.conformance.expect.network import Network, Passes, lossy, outage
from tests.unit.conformance.expect.stand_ins import target

LAB = load_timings(lab=True)
PATIENCE = LAB.linux
SOURCE, SERVER = a_workload("client"), target("192.168.0.9")
UP, LOST, REFUSED = Verdict.CONNECTED, Verdict.TIMED_OUT, Verdict.REFUSED


def path(*, steady: bool) -> Path:
    return a_path(LAB, SOURCE, SERVER, want=True, kind=Kind.UDP, steady=steady)


def told(*verdicts: Verdict, steady: bool = True) -> Path:
    """A path whose attempts, one a second, showed these."""
    one = path(steady=steady)
    for second, verdict in enumerate(verdicts):
        tell(one, verdict, second)
        decide(one)
    return one


def tell(one: Path, verdict: Verdict, second: float, attempt: Try | None = None) -> None:
    seen = Observation(
        attempt=one.attempt, verdict=verdict, at=0.0, seconds=0.1, began=second, clock="agent"
    )
    one.answer(attempt or one.ask(second), seen, at=second, error=0.0, came=second)


def over(passes: Passes, *, steady: bool = True) -> Standing:
    """How a path ends over which packets come through so."""
    network = Network(LAB)
    network.says(SOURCE, SERVER, passes)
    (standing,) = ask(
        network.asking(), [path(steady=steady)], cadence={SOURCE.uid: PATIENCE.poll_every},
        agreeing={SOURCE.uid: PATIENCE.agree_every}, settle=1.0, clock=network.clock,
    )  # fmt: skip
    return standing


def test_a_path_that_was_lost_after_it_had_connected_has_to_connect_twenty_times_in_a_row() -> None:
    assert not isinstance(decide(told(UP, LOST, *[UP] * (STEADY - 1))), Held)
    assert isinstance(decide(told(UP, LOST, *[UP] * STEADY)), Held)


def test_each_outage_needs_twenty_more() -> None:
    twice = [UP, LOST, *[UP] * (STEADY - 1), LOST]
    assert not isinstance(decide(told(*twice, *[UP] * (2 * STEADY - 1))), Held)
    assert isinstance(decide(told(*twice, *[UP] * 2 * STEADY)), Held)


def test_an_outage_of_several_attempts_is_one() -> None:
    assert isinstance(decide(told(UP, LOST, LOST, LOST, *[UP] * STEADY)), Held)


def test_an_attempt_that_still_waits_may_show_an_outage() -> None:
    one = told(UP)
    waiting = one.ask(1.0)
    for second in range(2, 9):
        tell(one, UP, second)
    assert not isinstance(decide(one), Held)
    tell(one, UP, 1, waiting)
    assert isinstance(decide(one), Held)


def test_a_path_that_opens_late_is_open_as_soon_as_its_attempts_agree() -> None:
    assert isinstance(decide(told(LOST, LOST, LOST, *[UP] * PATIENCE.agree)), Held)


def test_a_path_that_was_refused_after_it_had_connected_has_to_connect_twenty_times_in_a_row() -> (
    None
):
    assert isinstance(decide(told(UP, REFUSED, *[UP] * (STEADY - 1))), NotYet)
    assert isinstance(decide(told(UP, REFUSED, *[UP] * STEADY)), Held)
    assert isinstance(decide(told(REFUSED, *[UP] * PATIENCE.agree)), Held), (
        "kube-proxy did not know the Service yet"
    )


def test_a_server_that_is_busy_for_a_moment_is_no_loss() -> None:
    assert isinstance(decide(told(UP, Verdict.NO_ANSWER, *[UP] * PATIENCE.agree)), Held)


def answered_by(*pods: str, steady: bool = True) -> Path:
    """A path to a server, whose attempts, one a second, pods of these names answered."""
    server = a_workload("server")
    one = path(steady=steady)
    one.attempt = replace(one.attempt, target=replace(SERVER, port=8080, backends=(server,)))
    for second, name in enumerate(pods):
        seen = Observation(
            attempt=one.attempt, verdict=UP, at=0.0, seconds=0.1, began=second, clock="agent",
            served_by=f"{server.namespace}/{name}",
        )  # fmt: skip
        one.answer(one.ask(second), seen, at=second, error=0.0, came=second)
    return one


def test_a_path_that_led_to_another_pod_once_has_to_lead_to_its_own_twenty_times_in_a_row() -> None:
    own = a_workload("server").pod
    assert isinstance(decide(answered_by(*[own] * PATIENCE.agree)), Held)
    assert isinstance(decide(answered_by("other", *[own] * PATIENCE.agree)), Held), (
        "what it was led to before it opened"
    )
    each_third = [own, own, "other"] * 8
    assert isinstance(decide(answered_by(*each_third[:-1])), NotYet)
    assert conclude(answered_by(*each_third), about_denial=False) == Wrong(Why.ANOTHER_POD)
    assert isinstance(decide(answered_by(own, own, "other", *[own] * (STEADY - 1))), NotYet)
    assert isinstance(decide(answered_by(own, own, "other", *[own] * STEADY)), Held)
    assert isinstance(
        decide(answered_by(own, "other", *[own] * PATIENCE.agree, steady=False)), Held
    )


def test_a_path_that_is_a_control_may_lose_an_attempt() -> None:
    assert isinstance(decide(told(UP, LOST, *[UP] * PATIENCE.agree, steady=False)), Held)


def test_a_path_that_goes_on_losing_wavers() -> None:
    few = [UP, LOST, *[UP] * (STEADY - 1)]
    assert conclude(told(*few), about_denial=False) == Wrong(Why.WAVERS)
    assert conclude(told(*few, LOST, LOST, LOST), about_denial=False) == Wrong(Why.WAVERS)
    assert conclude(told(*few, steady=False), about_denial=True) != BrokenControl(Why.WAVERS)


def test_a_server_that_takes_connections_and_is_silent_says_nothing_of_a_denial() -> None:
    silent = [UP, Verdict.NO_ANSWER, Verdict.NO_ANSWER, Verdict.NO_ANSWER]
    assert conclude(told(*silent, steady=False), about_denial=True) == BrokenControl(Why.SILENT)
    assert conclude(told(*silent), about_denial=False) == Wrong(Why.CLOSED)
    assert conclude(told(*silent[:3], LOST, steady=False), about_denial=True) == Wrong(Why.CLOSED)


def test_a_moments_outage_makes_no_path_closed() -> None:
    assert isinstance(over(outage((0.06, 1.0))), Held)


def test_a_path_on_which_each_fifth_packet_is_lost_is_all_but_never_open() -> None:
    standings = [
        over(outage((0.06, 0.2), otherwise=after(0.06, lossy(0.2, seed)))) for seed in range(100)
    ]
    assert (
        standings.count(Wrong(Why.WAVERS)) >= 97
    )  # twenty connect in a row by chance one time in 87
    assert len(standings) - standings.count(Wrong(Why.WAVERS)) == sum(
        isinstance(one, Held) for one in standings
    )


def after(moment: float, passes: Passes) -> Passes:
    """All packets come through until then."""
    return lambda sent: sent < moment or passes(sent)
