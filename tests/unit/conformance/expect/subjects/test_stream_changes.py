# SPDX-License-Identifier: Apache-2.0
"""Streams under a change of policy: which streams the change may end, and what the witness
shows."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.errors import (
    ControlBroken,
    Nonconformance,
    UsageProblem,
)
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.observation import Observation, Verdict
from conformance.model.stream import StreamState
from conformance.probe.streams import NotOpened
from tests.unit.conformance.expect.stand_ins import observation
from tests.unit.conformance.expect.stream_stand_ins import (
    BACK,
    CONTROL,
    GUEST_ENTERS,
    GUEST_STAYS_OUT,
    LINUX,
    LOST,
    RESET,
    STALLED,
    TIMINGS,
    WELL,
    WINDOWS,
    Expectations,
    Policy,
    Restart,
    ScriptedStreams,
)
from tests.unit.conformance.expect.subjects.test_streams import OneDirectionLost, changed


def test_a_loss_that_recovers_confirms_and_says_which_end_saw_what() -> None:
    expected = Expectations(ScriptedStreams(BACK))
    changed(expected)
    assert expected.survive_or_reconnect() == [BACK]
    assert expected.recorded.items() >= {
        "client on linux saw": RESET, "server on windows saw": STALLED, "seconds to a new connection": 0.02,
    }.items()  # fmt: skip
    assert not expected.unobserved
    assert "witness: 1 path opened " in expected.attached["streams"]


def test_no_loss_is_not_observed_and_names_the_witness() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    changed(expected)
    expected.survive_or_reconnect()
    (reason,) = expected.unobserved
    assert "server SURVIVED, although survival is not required; witness: 1 path opened" in reason


def test_streams_are_opened_before_the_policy_is_laid_and_the_witness_decides_no_claim() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    policy, opened = Policy(expected), list[bool]()
    real = expected.streams.streams.open
    expected.streams.streams.open = lambda pairs: opened.append(policy.closed) or real(pairs)  # type: ignore[method-assign, func-returns-value]
    expected.begin(policy)
    assert (opened, policy.closed, expected.kept) == ([False], True, [])


def test_a_stream_that_the_policy_s_laying_lost_is_opened_again_and_says_nothing_about_the_change() -> (
    None
):
    expected = Expectations(ScriptedStreams(BACK, BACK, WELL))
    changed(expected)
    expected.survive_or_reconnect()
    (reason,) = expected.unobserved
    assert "SURVIVED" in reason
    assert (
        "1 stream lost when the policies were applied: opened again" in expected.attached["streams"]
    )


@pytest.mark.parametrize("closes", [True, False])
def test_a_stream_that_came_back_once_and_does_not_open_again_is_a_violation(closes: bool) -> None:
    script = ScriptedStreams(BACK)
    expected = Expectations(script)
    policy = Policy(expected, closes=closes)
    really = policy.apply

    def apply() -> None:
        really()
        label = f"{LINUX.label} -> {WINDOWS.tcp(9000).label}"
        script.opens = NotOpened(f"stream {label}: TIMED_OUT no answer (5 tries, 4.1 s)")

    policy.apply = apply  # type: ignore[method-assign]
    said = (
        r"expected new connections after the loss, observed client RESET, server received nothing for 9\.0 s, "
        r"a new connection after 0\.02 s, then TIMED_OUT no answer \(5 tries, 4\.1 s\)"
    )
    with pytest.raises(Nonconformance, match=said):
        expected.begin(policy)
    assert expected.kept[-1].verdict is ClaimVerdict.VIOLATED
    assert len(expected.kept) == (1 if closes else 2), (
        "that the policy does not close the path is another"
    )


def test_a_witness_that_the_policies_do_not_close_is_a_violation() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    with pytest.raises(
        Nonconformance, match=r"expected TIMED_OUT, observed CONNECTED(?s:.*)path +ns/linux "
    ):
        expected.begin(Policy(expected, closes=False))
    assert [(seen.verdict, seen.halves) for seen in expected.kept] == [
        (ClaimVerdict.VIOLATED, ("closed",))
    ]


@pytest.mark.parametrize("lasts", [0.5, 1.0, 2.0])
def test_a_loss_of_the_guest_s_packets_is_not_taken_for_a_policy_that_closes_its_way(
    lasts: float,
) -> None:
    expected = Expectations(ScriptedStreams(WELL))
    policy = Policy(expected, closes=False)
    length = lasts * TIMINGS.linux.tcp_give_up

    def applied() -> None:
        begun = expected.prober.clock.now
        policy.loses = lambda moment: begun <= moment < begun + length

    policy.apply = applied  # type: ignore[method-assign]
    with pytest.raises(Nonconformance, match=r"expected TIMED_OUT, observed .*CONNECTED"):
        expected.begin(policy)


def test_a_witness_that_one_packet_got_through_to_did_not_open() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    changed(expected, opens_after=1e6, loses=lambda moment: False)
    guest = expected.prober.answers["linux"][0]
    calls: list[Attempt] = []

    def once(attempt: Attempt, number: int) -> Observation:
        assert callable(guest)
        calls.append(attempt)
        return (
            observation(attempt, Verdict.CONNECTED) if len(calls) == 1 else guest(attempt, number)
        )

    expected.prober.answers["linux"] = [once]
    with pytest.raises(ControlBroken, match="control after the change failed"):
        expected.survive_or_reconnect()


def test_without_a_witness_nothing_is_decided() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    changed(expected, opens_after=1e6)
    with pytest.raises(ControlBroken, match="control after the change failed"):
        expected.survive_or_reconnect()
    assert not expected.unobserved


def test_a_stream_lost_for_good_is_its_own_witness() -> None:
    expected = Expectations(ScriptedStreams(WELL, LOST))
    changed(expected, opens_after=1e6)
    with pytest.raises(Nonconformance, match="a new connection within"):
        expected.survive_or_reconnect()
    assert [(seen.target, seen.verdict) for seen in expected.kept] == [
        ("windows-1", ClaimVerdict.VIOLATED)
    ]


@pytest.mark.parametrize("closes", [True, False])
def test_a_stream_that_the_policy_s_laying_lost_for_good_is_a_violation(closes: bool) -> None:
    expected = Expectations(ScriptedStreams(LOST))
    with pytest.raises(
        Nonconformance, match=r"expected a new connection within .* observed client RESET"
    ):
        expected.begin(Policy(expected, closes=closes))
    assert {(seen.source, seen.target, seen.verdict) for seen in expected.kept} == {
        ("linux-1", "windows-1", ClaimVerdict.VIOLATED)
    }
    assert "client RESET" in expected.attached["streams"]


@pytest.mark.parametrize("control", [BACK, LOST])
def test_a_linux_stream_must_not_be_lost(control: StreamState) -> None:
    expected = Expectations(ScriptedStreams(BACK, control=control))
    changed(expected)
    with pytest.raises(
        Nonconformance, match=r"control stream \(Linux to Linux\) to survive at both ends, observed"
    ):
        expected.survive_or_reconnect()


@pytest.mark.parametrize(
    ("version", "found", "outcome"),
    [
        ("v3.31.2", WELL, "confirmed"),
        ("v3.31.0", BACK, "violated"),
        ("v3.30.4", BACK, "confirmed"),
        ("v3.30.4", WELL, "not observed"),
    ],
)
def test_an_irrelevant_change_loses_nothing_from_v3_31_on(
    version: str, found: StreamState, outcome: str
) -> None:
    expected = Expectations(ScriptedStreams(found), version)
    changed(expected)

    def survive() -> None:
        expected.connections_during_change.survive(
            [(LINUX, WINDOWS)],
            GUEST_ENTERS,
            survives=CONTROL,
            because="a label that nobody selects",
        )

    if outcome == "violated":
        with pytest.raises(
            Nonconformance,
            match=r"both ends to survive under Calico v3\.31\.0, observed client RESET",
        ):
            survive()
    else:
        survive()
        assert bool(expected.unobserved) is (outcome == "not observed")


def test_what_earlier_changes_lose_late_is_opened_again_before_the_change() -> None:
    expected = Expectations(ScriptedStreams(*[WELL] * 8, *[BACK] * 3, WELL))
    expected.begin(Policy(expected))
    began = expected.prober.clock.now
    expected.connections_during_change.quiet(because="no change is left")
    assert expected.prober.clock.now - began > TIMINGS.windows.policy_effect
    marks = [mark.what for mark in expected.streams.marks]
    assert marks[-1] == "streams lost by earlier changes: opened again"


def test_streams_that_nothing_loses_are_waited_for_once_and_others_are_a_broken_control() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    expected.begin(Policy(expected))
    marks = len(expected.streams.marks)
    expected.connections_during_change.quiet(because="no change is left")
    assert len(expected.streams.marks) == marks
    expected = Expectations(ScriptedStreams(*[WELL] * 8, BACK))
    expected.begin(Policy(expected))
    with pytest.raises(ControlBroken, match="lost 3 times although nothing changed"):
        expected.connections_during_change.quiet(because="no change is left")


def test_what_policies_close_stays_closed() -> None:
    expected = Expectations(ScriptedStreams(BACK))
    changed(expected)
    with pytest.raises(Nonconformance, match="expected TIMED_OUT, observed CONNECTED"):
        expected.survive_or_reconnect(
            opened=(), still=GUEST_STAYS_OUT, restarts=[Restart()], because="Felix restarts"
        )


@pytest.mark.parametrize("found", [BACK, WELL])
def test_a_restart_that_was_seen_is_a_witness_and_stands_on_the_time_line(
    found: StreamState,
) -> None:
    expected = Expectations(ScriptedStreams(found))
    expected.begin(Policy(expected))
    expected.survive_or_reconnect(opened=(), still=GUEST_STAYS_OUT, restarts=[Restart()])
    assert bool(expected.unobserved) is (found is WELL)
    seen = "witness: Felix on node windows-1 restarted in 2.50 s, calico-node-windows-a, 0 restarts -> "
    assert seen in expected.attached["streams"]


def test_streams_are_watched_while_what_is_closed_is_looked_at() -> None:
    def seconds(**after: Any) -> float:
        expected = Expectations(ScriptedStreams(WELL))
        expected.begin(Policy(expected))
        restarted = expected.prober.clock.now
        expected.survive_or_reconnect(opened=(), restarts=[Restart()], **after)
        return expected.prober.clock.now - restarted

    watch = 3 * max(TIMINGS.windows.stream_watch, TIMINGS.linux.stream_watch)
    row = TIMINGS.linux.agree_span + TIMINGS.linux.hold
    assert seconds() >= watch
    assert max(watch, row) <= seconds(still=GUEST_STAYS_OUT) < watch + row


@pytest.mark.parametrize("found", [BACK, WELL])
def test_without_routes_that_open_and_without_a_restart_nothing_is_decided(
    found: StreamState,
) -> None:
    expected = Expectations(ScriptedStreams(found))
    expected.begin(Policy(expected))
    with pytest.raises(ControlBroken, match="nothing shows that the change took effect"):
        expected.survive_or_reconnect(opened=())
    assert not expected.unobserved


def test_an_end_without_a_beginning_or_about_other_streams_is_a_mistake() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    with pytest.raises(UsageProblem):
        expected.survive_or_reconnect()
    changed(expected)
    with pytest.raises(UsageProblem, match="opened other connections"):
        expected.connections_during_change.survive_or_reconnect(
            [CONTROL], survives=CONTROL, because="x"
        )


@pytest.mark.parametrize("closes", [True, False])
def test_a_stream_that_the_laying_loses_for_good_leaves_others_as_they_are(closes: bool) -> None:
    streams = OneDirectionLost()
    expected = Expectations(streams)
    policy = Policy(expected, closes=closes)
    expected.prober.answers["linux"] = [policy.answer]
    connections = expected.connections_during_change
    connections.begin([(LINUX, WINDOWS), (WINDOWS, LINUX)], beside=CONTROL)
    streams.changed = True
    with pytest.raises(Nonconformance, match="a new connection within"):
        connections.under(policy, *GUEST_STAYS_OUT)
    survived = {"windows to linux": ClaimVerdict.NOT_OBSERVED} if closes else {}
    assert {one.part: one.verdict for one in expected.kept if one.part} == {
        "linux to windows": ClaimVerdict.VIOLATED,
    } | survived


OTHER = (CONTROL[0], WINDOWS)


@pytest.mark.parametrize(
    ("watched", "survives"),
    [
        pytest.param([(LINUX, WINDOWS)], OTHER, id="another control"),
        pytest.param([OTHER], CONTROL, id="another stream"),
        pytest.param([(LINUX, WINDOWS), OTHER], CONTROL, id="another stream beside a known one"),
    ],
)
def test_streams_that_were_never_opened_are_not_judged(watched: Any, survives: Any) -> None:
    expected = Expectations(ScriptedStreams(WELL))
    changed(expected)
    with pytest.raises(UsageProblem, match="these connections were never opened"):
        expected.connections_during_change.survive_or_reconnect(
            watched, GUEST_ENTERS, survives=survives, because="x"
        )
    assert not expected.kept
