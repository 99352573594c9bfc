"""What expectations make of streams: lost and back, lost for good, paused, and pods that were not what they seemed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance, ProbeBroken, UsageProblem
from conformance.expect.connections_during_change import ConnectionsDuringChange
from conformance.expect.streams import StreamExpect
from conformance.expect.traffic import Context, Expect
from conformance.expect.witnesses import AclLists
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Seen
from conformance.model.endpoint import Workload
from conformance.model.facts import Fact
from conformance.model.host import AclRule
from conformance.model.observation import Observation, Verdict
from conformance.model.stream import StreamEnd, StreamEvent, StreamState, StreamVerdict
from conformance.probe.streams import NotOpened, Stream
from conformance.settings import load_timings
from tests.unit.conformance.expect.stand_ins import ScriptedProber, observation, told, workload

LINUX, WINDOWS = workload("linux"), workload("windows", "windows")
CONTROL = (workload("control-client"), workload("control-server"))
TIMINGS = load_timings(lab=True)
RECOVER = TIMINGS.windows.stream_recover
SURVIVED, STALLED, RESET, CLOSED = (StreamVerdict[name] for name in ("SURVIVED", "STALLED", "RESET", "CLOSED"))


def end(pod: Workload, side: Any, verdict: StreamVerdict, quiet: float | None = None) -> StreamEnd:
    events = [StreamEvent(at=1000.0, what="opened")]
    if verdict not in (SURVIVED, STALLED):
        events.append(StreamEvent(at=1001.5, what="ended", detail=f"{verdict} Connection reset by peer"))
    if verdict is STALLED:
        events.append(StreamEvent(at=1002.0, what="stalled", detail="no heartbeat for 600 ms"))
    return StreamEnd(workload=pod, side=side, verdict=verdict, quiet=quiet, events=tuple(events))


def state(client: StreamVerdict, server: StreamVerdict, after: float | None = None, quiet: float = 9.0) -> StreamState:
    """From the Linux to the Windows pod."""
    return StreamState(
        client=end(LINUX, "client", client, quiet), server=end(WINDOWS, "server", server, quiet),
        target=WINDOWS.tcp(9000), recovered_after=after, recovery_tries=1 if client is not SURVIVED else 0,
    )  # fmt: skip


WELL = state(SURVIVED, SURVIVED, quiet=0.1)
LOST = state(RESET, STALLED)
BACK = state(RESET, STALLED, 0.02)


class ScriptedStreams:
    """Streams whose states are a script, by their client's name; the last one lasts."""

    def __init__(
        self, *script: StreamState | Exception, control: StreamState = WELL, opens: Exception | None = None
    ) -> None:
        self.script, self.control, self.opens = list(script), control, opens
        self.looks, self.closed = 0, 0

    def open(self, routes: Sequence[tuple[Workload, Workload]]) -> list[Stream]:
        if self.opens:
            raise self.opens
        return [Stream(f"s{n}", *route, route[1].tcp(9000), ()) for n, route in enumerate(routes)]  # type: ignore[arg-type]

    def look(self, streams: Sequence[Stream]) -> list[StreamState]:
        return [self.control if stream.client.pod.startswith("control") else self._next() for stream in streams]

    def close(self, streams: Sequence[Stream]) -> None:
        self.closed += len(streams)
        raise ProbeBroken("the agent is gone")

    def _next(self) -> StreamState:
        found = self.script[min(self.looks, len(self.script) - 1)]
        self.looks += 1
        if isinstance(found, Exception):
            raise found
        return found


class Expectations:
    """A test's expectations over scripts."""

    def __init__(self, streams: ScriptedStreams, version: str = "v3.31.2", **answers: Any) -> None:
        self.attached: dict[str, str] = {}
        self.recorded: dict[str, Any] = {}
        self.kept: list[Seen] = []
        self.prober = ScriptedProber(answers)
        context = Context(
            claims=("RST-1",), attach=lambda name, text: self.attached.update({name: text}), keep=self.kept.extend
        )
        self.expect = Expect(self.prober, TIMINGS, context, self.prober.clock)
        self.streams = StreamExpect(streams, self.expect)
        calico = Fact(value=version, source="test")
        facts: Any = SimpleNamespace(calico_version=calico, calico_on=lambda node: calico)
        self.lists: list[tuple[AclRule, ...]] = []
        self.connections_during_change = ConnectionsDuringChange(
            self.streams, self.expect, facts,
            record=lambda name, value: self.recorded.update({name: value}),
        )  # fmt: skip

    @property
    def unobserved(self) -> list[str]:
        """Why streams that may be lost were not."""
        return told(self.kept)

    def acls(self, node: str, pod: Workload) -> tuple[AclRule, ...]:
        return self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]

    def begin(self, policy: Policy) -> None:
        """Until the change: streams, then the policy that closes the guest's way."""
        self.prober.answers["linux"] = [policy.answer]
        self.connections_during_change.begin([(LINUX, WINDOWS)], beside=CONTROL)
        self.connections_during_change.under(policy, closed=[GUEST], because="the policy lets streams pass alone")

    def survive_or_reconnect(self, **more: Any) -> list[StreamState]:
        """After the change, which opens the guest's way if nothing else is said."""
        found = {"opened": [GUEST], "because": "policy changes"} | more
        return self.connections_during_change.survive_or_reconnect([(LINUX, WINDOWS)], survives=CONTROL, **found)


@dataclass(frozen=True)
class Restart:
    """One that was seen."""

    node: str = "windows-1"
    before: str = "calico-node-windows-a, 0 restarts"
    after: str = "calico-node-windows-b, 0 restarts"
    seconds: float = 2.5
    note: str = ""


GUEST = (LINUX, WINDOWS.tcp(8080))


@dataclass
class Policy:
    """Closes the guest's way when it is applied, and opens it again so many seconds after :meth:`change`."""

    expected: Expectations
    closes: bool = True
    opens_after: float = 0.0
    loses: Callable[[float], bool] = lambda _: False
    """Whether the network loses what the guest sends at a moment, whatever policy says."""
    closed: bool = False
    changed: float = float("inf")

    def apply(self) -> None:
        self.closed = self.closes

    def change(self) -> None:
        self.changed = self.expected.prober.clock.now

    def answer(self, attempt: Attempt, _: int) -> Observation:
        now = self.expected.prober.clock.now
        assert attempt.target is not None
        shut = self.closed and now < self.changed + self.opens_after
        if attempt.target.port == 8080 and (shut or self.loses(now)):
            return observation(attempt, Verdict.TIMED_OUT)
        return observation(attempt, Verdict.CONNECTED)


def judged(expected: Expectations, streams: Sequence[Stream]) -> list[StreamState]:
    """What became of streams across a change, as a test about one decides it."""
    states = expected.streams.followed(streams, because="policy changes")
    for found in states:
        if wanted := expected.streams.not_recovered(found):
            raise expected.streams.violation(found, wanted, "policy changes")
    expected.streams.same_pods(states)
    return states


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
        "RST-1  ns/linux (linux, node linux-1) -> 192.168.0.5:9000/tcp (windows, windows, node windows-1)  stream  "
        f"expected a new connection within {RECOVER:.0f} s of the loss, "
        "observed client RESET, server STALLED 9.0 s, no new connection in 1 try ("
    )
    assert rest == [
        "  because   policy changes",
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
    with pytest.raises(EnvironmentBroken, match="restarted 1 time, while this was seen"):
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
    """Everything up to and with the change."""
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
    assert "witness: 1 route opened by it" in expected.attached["streams"]


def test_no_loss_is_not_observed_and_names_the_witness() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    changed(expected)
    expected.survive_or_reconnect()
    (reason,) = expected.unobserved
    assert "server SURVIVED, where it may be lost; witness: 1 route opened" in reason


def test_streams_are_opened_before_the_policy_is_laid_and_the_witness_decides_no_claim() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    policy, opened = Policy(expected), list[bool]()
    real = expected.streams.streams.open
    expected.streams.streams.open = lambda routes: opened.append(policy.closed) or real(routes)  # type: ignore[method-assign, func-returns-value]
    expected.begin(policy)
    assert (opened, policy.closed, expected.kept) == ([False], True, [])


def test_a_stream_that_the_policy_s_laying_lost_is_opened_again_and_says_nothing_about_the_change() -> None:
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
        r"expected new connections after the loss, observed client RESET, server STALLED 9\.0 s, "
        r"a new connection after 0\.02 s, then TIMED_OUT no answer \(5 tries, 4\.1 s\)"
    )
    with pytest.raises(Nonconformance, match=said):
        expected.begin(policy)
    assert [seen.verdict for seen in expected.kept] == [ClaimVerdict.VIOLATED]


def test_a_witness_that_the_policies_do_not_close_decides_nothing() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    with pytest.raises(ControlBroken, match=r"witness failed before the change: control failed: RST-1  ns/linux "):
        expected.begin(Policy(expected, closes=False))
    assert not expected.kept


@pytest.mark.parametrize("lasts", [0.5, 1.0, 2.0])
def test_a_loss_of_the_guest_s_packets_is_not_taken_for_a_policy_that_closes_its_way(lasts: float) -> None:
    expected = Expectations(ScriptedStreams(WELL))
    policy = Policy(expected, closes=False)
    length = lasts * TIMINGS.linux.tcp_give_up

    def applied() -> None:
        begun = expected.prober.clock.now
        policy.loses = lambda moment: begun <= moment < begun + length

    policy.apply = applied  # type: ignore[method-assign]
    with pytest.raises(ControlBroken, match="witness failed before the change"):
        expected.begin(policy)


def test_a_witness_that_one_packet_got_through_to_did_not_open() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    changed(expected, opens_after=1e6, loses=lambda moment: False)
    guest = expected.prober.answers["linux"][0]
    calls: list[Attempt] = []

    def once(attempt: Attempt, number: int) -> Observation:
        assert callable(guest)
        calls.append(attempt)
        return observation(attempt, Verdict.CONNECTED) if len(calls) == 1 else guest(attempt, number)

    expected.prober.answers["linux"] = [once]
    with pytest.raises(ControlBroken, match="witness failed after the change"):
        expected.survive_or_reconnect()


def test_without_a_witness_nothing_is_decided() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    changed(expected, opens_after=1e6)
    with pytest.raises(ControlBroken, match="witness failed after the change"):
        expected.survive_or_reconnect()
    assert not expected.unobserved


def test_a_stream_lost_for_good_is_its_own_witness() -> None:
    expected = Expectations(ScriptedStreams(WELL, LOST))
    changed(expected, opens_after=1e6)
    with pytest.raises(Nonconformance, match="a new connection within"):
        expected.survive_or_reconnect()
    assert [(seen.target, seen.verdict) for seen in expected.kept] == [("windows-1", ClaimVerdict.VIOLATED)]


@pytest.mark.parametrize("closes", [True, False])
def test_a_stream_that_the_policy_s_laying_lost_for_good_is_a_violation(closes: bool) -> None:
    expected = Expectations(ScriptedStreams(LOST))
    with pytest.raises(Nonconformance, match=r"expected a new connection within .* observed client RESET"):
        expected.begin(Policy(expected, closes=closes))
    assert [(seen.source, seen.target, seen.verdict) for seen in expected.kept] == [
        ("linux-1", "windows-1", ClaimVerdict.VIOLATED)
    ]
    assert "client RESET" in expected.attached["streams"]


@pytest.mark.parametrize("control", [BACK, LOST])
def test_a_linux_stream_must_not_be_lost(control: StreamState) -> None:
    expected = Expectations(ScriptedStreams(BACK, control=control))
    changed(expected)
    with pytest.raises(Nonconformance, match="the stream of Linux pods beside it SURVIVED at both ends, observed"):
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
def test_an_irrelevant_change_loses_nothing_from_v3_31_on(version: str, found: StreamState, outcome: str) -> None:
    expected = Expectations(ScriptedStreams(found), version)
    changed(expected)

    def survive() -> None:
        expected.connections_during_change.survive(
            [(LINUX, WINDOWS)], survives=CONTROL, opened=[GUEST], because="a label that nobody selects"
        )

    if outcome == "violated":
        with pytest.raises(Nonconformance, match=r"both ends SURVIVED under Calico v3\.31\.0, observed client RESET"):
            survive()
    else:
        survive()
        assert bool(expected.unobserved) is (outcome == "not observed")


def test_what_policies_close_stays_closed() -> None:
    expected = Expectations(ScriptedStreams(BACK))
    changed(expected)
    with pytest.raises(Nonconformance, match="expected TIMED_OUT, observed CONNECTED"):
        expected.survive_or_reconnect(opened=(), still_closed=[GUEST], restarts=[Restart()], because="Felix restarts")


@pytest.mark.parametrize("found", [BACK, WELL])
def test_a_restart_that_was_seen_is_a_witness_and_stands_on_the_time_line(found: StreamState) -> None:
    expected = Expectations(ScriptedStreams(found))
    expected.begin(Policy(expected))
    expected.survive_or_reconnect(opened=(), still_closed=[GUEST], restarts=[Restart()])
    assert bool(expected.unobserved) is (found is WELL)
    seen = "witness: Felix on node windows-1 restarted in 2.50 s, calico-node-windows-a, 0 restarts -> "
    assert seen in expected.attached["streams"]


@pytest.mark.parametrize("found", [BACK, WELL])
def test_without_routes_that_open_and_without_a_restart_nothing_is_decided(found: StreamState) -> None:
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
        expected.connections_during_change.survive_or_reconnect([CONTROL], survives=CONTROL, because="x")


# --- ACL lists --------------------------------------------------------------------------------------------------------


RULE = AclRule(
    id="policy-demo-a-0", action="Allow", direction="In", protocol="6", local_addresses="",
    remote_addresses="192.168.0.7/32", local_ports="", remote_ports="", priority=1000,
)  # fmt: skip
END = replace(RULE, id="", action="Block", protocol="256", remote_addresses="", priority=1001)


@pytest.mark.parametrize(
    "after",
    [
        (replace(RULE, remote_addresses="192.168.0.8/32"), END),
        (replace(RULE, id="policy-demo-b-0"), END),
        (END,),
        (END, RULE),
    ],
)
def test_a_list_with_another_rule_field_or_order_is_another_one_and_the_difference_is_told(
    after: tuple[AclRule, ...],
) -> None:
    expected = Expectations(ScriptedStreams(WELL))
    lists = AclLists(expected.expect, expected.acls)
    expected.lists = [(RULE, END), (RULE, END), after]
    lists.remember(WINDOWS)
    lists.replaced([BACK], because="policy changes")
    told = expected.attached["ACL lists"].splitlines()
    assert any(line[:2] in {"- ", "+ "} for line in told)
    assert [seen.verdict for seen in expected.kept] == [ClaimVerdict.CONFIRMED]


def test_a_list_that_was_replaced_while_no_stream_was_lost_explains_nothing() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    lists = AclLists(expected.expect, expected.acls)
    expected.lists = [(RULE, END), (END,)]
    lists.remember(WINDOWS)
    lists.replaced([WELL], because="policy changes")
    assert [seen.verdict for seen in expected.kept] == [ClaimVerdict.NOT_OBSERVED]


def test_a_stream_that_was_lost_under_the_same_list_is_told_of_in_the_violation() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    lists = AclLists(expected.expect, expected.acls)
    expected.lists = [(RULE, END)]
    lists.remember(WINDOWS)
    with pytest.raises(Nonconformance, match=r"observed the same 2 rules, while a stream was lost \(ns/linux .*RESET"):
        lists.replaced([BACK], because="policy changes")


def test_the_same_list_is_a_violation_that_shows_it() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    lists = AclLists(expected.expect, expected.acls)
    expected.lists = [(RULE, END)]
    lists.remember(WINDOWS)
    with pytest.raises(Nonconformance, match="expected another ACL list, observed the same 2 rules") as caught:
        lists.replaced([WELL], because="policy changes")
    assert f"  {END}" in str(caught.value).splitlines()


def test_lists_that_were_not_remembered_are_a_mistake() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    with pytest.raises(UsageProblem):
        AclLists(expected.expect, expected.acls).replaced([], because="policy changes")


def test_words_of_a_state() -> None:
    assert replace(BACK, recovered_after=None).words == "client RESET, server STALLED 9.0 s, no new connection in 1 try"
