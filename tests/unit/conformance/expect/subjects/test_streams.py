# SPDX-License-Identifier: Apache-2.0
"""How expectations judge streams: lost and opened again, lost for good, paused, and pods that
were replaced."""

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
    Wavered,
)
from conformance.expect.machine_lag import REMEDY
from conformance.expect.owners import NoForeignChanges
from conformance.model.claim import ClaimVerdict
from conformance.model.stream import StreamState
from conformance.probe.clocks import unix
from conformance.probe.machine import Machine
from conformance.probe.streams import NotOpened, Stream
from tests.unit.conformance.expect.stand_in_world import StandInWorld
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
    WELL,
    WINDOWS,
    Expectations,
    Policy,
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
        "observed client RESET, server received nothing for 9.0 s, no new connection in 1 try (1 "
        "try, "
    )
    assert rest == [
        "  path     ns/linux (linux, node linux-1) -> 192.168.0.5:9000/tcp (windows, windows, node windows-1)  stream",
        "  because  policy changes",
        "  do       test a new connection by hand; read the ACLs in Get-HnsEndpoint on node "
        "windows-1, and Felix' log on node "
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
    assert "nor by this run: GlobalNetworkPolicy company-wide denies ingress of ns/windows" in str(
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


def changed(expected: Expectations, **more: Any) -> None:
    """Carry out all steps up to and including the change."""
    policy = Policy(expected, **more)
    expected.begin(policy)
    policy.change()


def test_words_of_a_state() -> None:
    assert (
        replace(BACK, recovered_after=None).words
        == "client RESET, server received nothing for 9.0 s, no new connection in 1 try"
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
