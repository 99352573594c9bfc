# SPDX-License-Identifier: Apache-2.0
"""What expectations make of streams: lost and back, lost for good, paused, and pods that were not what they seemed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import (
    ControlBroken,
    EnvironmentBroken,
    Nonconformance,
    ProbeBroken,
    UsageProblem,
    Wavered,
)
from conformance.expect.machine_lag import REMEDY
from conformance.expect.owners import NoForeignChanges
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.observation import Observation, Verdict
from conformance.model.stream import StreamState
from conformance.probe.clocks import unix
from conformance.probe.machine import Machine
from conformance.probe.streams import NotOpened, Stream
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import observation
from tests.unit.conformance.expect.stream_stand_ins import (
    BACK,
    CONTROL,
    GUEST_ENTERS,
    GUEST_STAYS_OUT,
    LINUX,
    LOST,
    RECOVER,
    RESET,
    STALLED,
    SURVIVED,
    TIMINGS,
    WELL,
    WINDOWS,
    Expectations,
    Policy,
    Restart,
    ScriptedStreams,
    judged,
    state,
)


def test_a_stream_that_nobody_touched_survives() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    assert judged(expected, expected.streams.open((LINUX, WINDOWS))) == [WELL]
    assert "client SURVIVED, server SURVIVED" in expected.attached["streams"]


def test_a_pause_is_no_loss() -> None:
    pausing = state(SURVIVED, STALLED, quiet=0.7)
    expected = Expectations(ScriptedStreams(WELL, pausing, pausing, WELL))
    assert not judged(expected, expected.streams.open((LINUX, WINDOWS)))[0].lost


def test_the_message_of_a_loss_has_both_ends_on_one_time_line() -> None:
    expected = Expectations(ScriptedStreams(LOST))
    with pytest.raises(Nonconformance) as caught:
        judged(expected, expected.streams.open((LINUX, WINDOWS)))
    first, *rest = str(caught.value).splitlines()
    assert first.startswith(
        f"RST-1: linux-1 to windows-1 (9000/tcp): expected a new connection within {RECOVER:g} s of the loss, "
        "observed client RESET, server heard nothing for 9.0 s, no new connection in 1 try (1 try, "
    )
    assert rest == [
        "  path     ns/linux (linux, node linux-1) -> 192.168.0.5:9000/tcp (windows, windows, node windows-1)  stream",
        "  because  policy changes",
        "  do       test a new connection by hand; Get-HnsEndpoint's ACLs on node windows-1; Felix' log on node "
        "linux-1 and node windows-1",
        "  both ends on one time line:",
        "  +  0.000 s  client  opened",
        "  +  0.000 s  server  opened",
        "  +  1.500 s  client  ended      RESET Connection reset by peer",
        "  +  2.000 s  server  stalled    no heartbeat for 600 ms",
    ]


@pytest.mark.parametrize("after", [None, RECOVER + 0.1])
def test_a_loss_without_recovery_in_time_is_a_violation(after: float | None) -> None:
    expected = Expectations(ScriptedStreams(state(RESET, STALLED, after)))
    with pytest.raises(Nonconformance, match="a new connection within"):
        judged(expected, expected.streams.open((LINUX, WINDOWS)))


def on_a_late_machine(expected: Expectations, *, shared: bool = True) -> Machine:
    """Everything is a second late, and something always waits for a core."""
    machine, clock = expected.expect.context.pace.machine, expected.prober.clock
    machine.shared, machine.pressure, pass_by = shared, clock.monotonic, clock.sleep

    def sleep(seconds: float) -> None:
        pass_by(seconds)
        machine.record_lateness(1.0, clock.now)

    clock.sleep = sleep  # type: ignore[method-assign]
    for _ in range(20):
        clock.sleep(1.0)
    return machine


def test_a_loss_with_a_late_recovery_gets_more_time_on_a_machine_that_is_late() -> None:
    expected = Expectations(ScriptedStreams(state(RESET, STALLED, RECOVER + 0.5)))
    machine = on_a_late_machine(expected)
    judged(expected, expected.streams.open((LINUX, WINDOWS)))
    assert machine.given == 1


def test_time_that_one_loss_got_is_no_other_losss() -> None:
    expected = Expectations(ScriptedStreams(state(RESET, STALLED, RECOVER + 0.5)))
    machine = on_a_late_machine(expected)
    streams = expected.streams.open((LINUX, WINDOWS))
    judged(expected, streams)
    machine.more = lambda budget, since: 0.0  # type: ignore[method-assign]  # it is in time again
    with pytest.raises(Nonconformance, match="a new connection within"):
        judged(expected, streams)


@pytest.mark.parametrize(("shared", "error"), [(True, EnvironmentBroken), (False, Nonconformance)])
def test_a_loss_without_recovery_on_a_machine_that_is_late_says_nothing_only_where_the_lab_shares_it(
    shared: bool, error: type[Exception]
) -> None:
    expected = Expectations(ScriptedStreams(LOST))
    on_a_late_machine(expected, shared=shared)
    with pytest.raises(error) as failed:
        judged(expected, expected.streams.open((LINUX, WINDOWS)))
    assert ("the machine of the lab was overwhelmed throughout" in str(failed.value)) is shared
    assert (REMEDY in str(failed.value)) is shared


def test_a_control_stream_that_is_lost_is_never_excused() -> None:
    expected = Expectations(ScriptedStreams(LOST))
    on_a_late_machine(expected)
    assert isinstance(
        expected.streams.violation(LOST, "it to survive", "it was not touched"), Nonconformance
    )


def test_a_violation_names_its_way_so_that_evidence_is_read_of_both_ends() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    wrong = expected.streams.violation(LOST, "a new connection", "policy changes")
    assert isinstance(wrong, Nonconformance)
    assert [(one.source, one.target) for one in wrong.paths] == [(LINUX, WINDOWS.tcp(9000))]


def test_a_policy_of_others_that_came_since_it_was_opened_explains_a_loss() -> None:
    asked: list[dict[str, Any]] = []

    class Came(NoForeignChanges):
        def excuse(self, *way: Any, **how: Any) -> str:
            asked.append(how)
            return "GlobalNetworkPolicy company-wide denies ingress of ns/windows"

    expected = Expectations(ScriptedStreams(LOST))
    context = replace(expected.expect.context, world=StandInWorld(others=Came()))
    expected.streams.expect = replace(expected.expect, context=context)
    wrong = expected.streams.violation(LOST, "a new connection", "policy changes")
    assert isinstance(wrong, Wavered)
    assert "nor this run's: GlobalNetworkPolicy company-wide denies ingress of ns/windows" in str(
        wrong
    )
    opened = LOST.timeline[0][0].at - unix(0.0)
    times = asked[0]["times"]
    assert times.since == times.otherwise == pytest.approx(opened, abs=1.0)


class Disrupted(NoForeignChanges):
    """Another living run has changed something that touches every path."""

    exempt = "wait until that run has ended"

    def look(self) -> None:
        pass

    def excuse(self, nodes: Sequence[str], since: float | None = None) -> str:
        return "run other is changing the cluster: gives every node VNI 4097"


@pytest.mark.parametrize(("found", "excused"), [(LOST, True), (WELL, False)])
def test_another_runs_change_explains_a_connection_that_is_lost_and_no_other(
    found: StreamState, excused: bool
) -> None:
    expected = Expectations(ScriptedStreams(found))
    context = replace(expected.expect.context, world=StandInWorld(runs=Disrupted()))
    expected.streams.expect = replace(expected.expect, context=context)
    wrong = expected.streams.violation(found, "a reset", "policy changes")
    assert ("run other is changing the cluster" in str(wrong)) is excused
    assert isinstance(wrong, EnvironmentBroken if excused else Nonconformance)


@pytest.mark.parametrize("found", [LOST, BACK])
def test_a_pod_that_restarted_explains_a_loss(found: StreamState) -> None:
    expected = Expectations(ScriptedStreams(found))
    streams = expected.streams.open((LINUX, WINDOWS))
    expected.prober.restarted.add("windows")
    with pytest.raises(EnvironmentBroken, match="restarted"):
        judged(expected, streams)


def test_a_stream_whose_container_ended_just_before_the_api_knows_it_is_no_violation() -> None:
    expected = Expectations(ScriptedStreams(LOST))
    streams = expected.streams.open((LINUX, WINDOWS))
    asked: list[int] = []

    def unchanged(workloads: object) -> None:
        asked.append(1)
        if len(asked) > 1:
            raise EnvironmentBroken("pod ns/windows restarted 1 time")

    expected.prober.unchanged = unchanged  # type: ignore[method-assign]
    with pytest.raises(EnvironmentBroken, match="restarted 1 time; affected"):
        judged(expected, streams)


def test_a_stream_that_does_not_open_is_a_broken_control() -> None:
    expected = Expectations(ScriptedStreams(WELL, opens=NotOpened("TIMED_OUT")))
    with pytest.raises(ControlBroken, match="TIMED_OUT"):
        expected.streams.open((LINUX, WINDOWS))


def test_a_broken_agent_is_no_verdict() -> None:
    expected = Expectations(ScriptedStreams(ProbeBroken("the agent died")))
    with pytest.raises(ProbeBroken):
        judged(expected, expected.streams.open((LINUX, WINDOWS)))


def test_streams_are_closed_with_the_test_and_errors_in_closing_are_told() -> None:
    streams = ScriptedStreams(WELL)
    expected = Expectations(streams)
    expected.streams.open((LINUX, WINDOWS))
    expected.streams.close()
    assert (streams.closed, "gone" in expected.attached["streams not closed"]) == (1, True)


# --- connections during a change -------------------------------------------------------------------------------------


def changed(expected: Expectations, **more: Any) -> None:
    """Carry out all steps up to and including the change."""
    policy = Policy(expected, **more)
    expected.begin(policy)
    policy.change()


def test_a_loss_that_recovers_confirms_and_says_which_end_saw_what() -> None:
    expected = Expectations(ScriptedStreams(BACK))
    changed(expected)
    assert expected.survive_or_reconnect() == [BACK]
    assert expected.recorded.items() >= {
        "client on linux saw": RESET, "server on windows saw": STALLED, "seconds to a new connection": 0.02,
    }.items()  # fmt: skip
    assert not expected.unobserved
    assert "witness: 1 path opened by it" in expected.attached["streams"]


def test_no_loss_is_not_observed_and_names_the_witness() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    changed(expected)
    expected.survive_or_reconnect()
    (reason,) = expected.unobserved
    assert "server SURVIVED, where it may be lost; witness: 1 path opened" in reason


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
    assert "1 stream that the policies' laying lost: opened again" in expected.attached["streams"]


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
        r"expected new connections after the loss, observed client RESET, server heard nothing for 9\.0 s, "
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
    assert marks[-1] == "streams that earlier changes lost: opened again"


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
    with pytest.raises(UsageProblem, match="opened others"):
        expected.connections_during_change.survive_or_reconnect(
            [CONTROL], survives=CONTROL, because="x"
        )


def test_words_of_a_state() -> None:
    assert (
        replace(BACK, recovered_after=None).words
        == "client RESET, server heard nothing for 9.0 s, no new connection in 1 try"
    )


class OneDirectionLost(ScriptedStreams):
    """Streams of which those from Linux are lost for good once ``changed``."""

    changed = False

    def look(self, streams: Sequence[Stream]) -> list[StreamState]:
        lost = [self.changed and stream.client == LINUX for stream in streams]
        return [LOST if gone else WELL for gone in lost]


def test_a_stream_that_does_not_come_back_leaves_those_of_other_directions_as_they_are() -> None:
    streams = OneDirectionLost()
    expected = Expectations(streams)
    policy = Policy(expected)
    expected.prober.answers["linux"] = [policy.answer]
    both = [(LINUX, WINDOWS), (WINDOWS, LINUX)]
    connections = expected.connections_during_change
    connections.begin(both, beside=CONTROL)
    connections.under(policy, *GUEST_STAYS_OUT)
    policy.change()
    streams.changed = True
    with pytest.raises(Nonconformance, match="a new connection within"):
        connections.survive_or_reconnect(
            both, GUEST_ENTERS, survives=CONTROL, because="policy changes"
        )
    assert {one.part: one.verdict for one in expected.kept if one.part} == {
        "linux to windows": ClaimVerdict.VIOLATED,
        "windows to linux": ClaimVerdict.NOT_OBSERVED,
    }


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
