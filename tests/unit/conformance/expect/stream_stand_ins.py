# SPDX-License-Identifier: Apache-2.0
"""Streams with scripted states, and a test's expectations over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from conformance.errors import ProbeBroken
from conformance.expect.case import Case
from conformance.expect.context import Context, Sink
from conformance.expect.subjects.connections_during_change import ConnectionsDuringChange
from conformance.expect.subjects.streams import StreamExpect
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt
from conformance.model.decision import Decision
from conformance.model.endpoint import Workload
from conformance.model.facts import Fact
from conformance.model.host import AclRule
from conformance.model.observation import Observation, Verdict
from conformance.model.stream import StreamEnd, StreamEvent, StreamState, StreamVerdict
from conformance.probe.streams import Stream, Streams
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_ins import ScriptedProber, observation, told

LINUX, WINDOWS = a_workload("linux"), a_workload("windows", "windows")
CONTROL = (a_workload("control-client"), a_workload("control-server"))
TIMINGS = load_timings(lab=True)
RECOVER = TIMINGS.windows.stream_recover
SURVIVED, STALLED, RESET, CLOSED = (
    StreamVerdict[name] for name in ("SURVIVED", "STALLED", "RESET", "CLOSED")
)


def end(pod: Workload, side: Any, verdict: StreamVerdict, quiet: float | None = None) -> StreamEnd:
    events = [StreamEvent(at=1000.0, what="opened")]
    if verdict not in (SURVIVED, STALLED):
        events.append(
            StreamEvent(at=1001.5, what="ended", detail=f"{verdict} Connection reset by peer")
        )
    if verdict is STALLED:
        events.append(StreamEvent(at=1002.0, what="stalled", detail="no heartbeat for 600 ms"))
    return StreamEnd(workload=pod, side=side, verdict=verdict, quiet=quiet, events=tuple(events))


def state(
    client: StreamVerdict, server: StreamVerdict, after: float | None = None, quiet: float = 9.0
) -> StreamState:
    """Return the state of a stream from the Linux pod to the Windows pod."""
    return StreamState(
        client=end(LINUX, "client", client, quiet), server=end(WINDOWS, "server", server, quiet),
        target=WINDOWS.tcp(9000), recovered_after=after, recovery_tries=1 if client is not SURVIVED else 0,
    )  # fmt: skip


WELL = state(SURVIVED, SURVIVED, quiet=0.1)
LOST = state(RESET, STALLED)
BACK = state(RESET, STALLED, 0.02)


class ScriptedStreams(Streams):
    """Streams with scripted states, by their client's name; the last state stays."""

    def __init__(
        self,
        *script: StreamState | Exception,
        control: StreamState = WELL,
        opens: Exception | None = None,
    ) -> None:
        self.script, self.control, self.opens = list(script), control, opens
        self.looks, self.closed = 0, 0

    def open(self, pairs: Sequence[tuple[Workload, Workload]]) -> list[Stream]:
        if self.opens:
            raise self.opens
        return [Stream(f"s{n}", *pair, pair[1].tcp(9000), ()) for n, pair in enumerate(pairs)]  # type: ignore[arg-type]

    def look(self, streams: Sequence[Stream]) -> list[StreamState]:
        return [
            self.control if stream.client.pod.startswith("control") else self._next()
            for stream in streams
        ]

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
    """A test's expectations over scripted streams."""

    def __init__(self, streams: ScriptedStreams, version: str = "v3.31.2", **answers: Any) -> None:
        self.attached: dict[str, str] = {}
        self.recorded: dict[str, Any] = {}
        self.kept: list[Decision] = []
        self.prober = ScriptedProber(answers)
        context = Context(claims=("RST-1",), sink=Sink(self.kept, attached=self.attached))
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
        """Return the reasons why streams that may be lost were not lost."""
        return told(self.kept)

    def acls(self, node: str, pod: Workload) -> tuple[AclRule, ...]:
        return self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]

    def begin(self, policy: Policy) -> None:
        """Run the part before the change: open streams, then apply the policy that closes the
        guest's path."""
        self.prober.answers["linux"] = [policy.answer]
        self.connections_during_change.begin([(LINUX, WINDOWS)], beside=CONTROL)
        self.connections_during_change.under(policy, *GUEST_STAYS_OUT)

    def survive_or_reconnect(self, **more: Any) -> list[StreamState]:
        """Run the part after the change, which opens the guest's path unless stated otherwise."""
        opened = more.pop("opened", [GUEST_ENTERS])
        return self.connections_during_change.survive_or_reconnect(
            [(LINUX, WINDOWS)], *opened, survives=CONTROL, **{"because": "policy changes"} | more
        )


@dataclass(frozen=True)
class Restart:
    """A restart that was observed."""

    node: str = "windows-1"
    before: str = "calico-node-windows-a, 0 restarts"
    after: str = "calico-node-windows-b, 0 restarts"
    seconds: float = 2.5
    note: str = ""


GUEST_ENTERS = Case(LINUX, WINDOWS, tcp=8080, open=True, because="the policy admits guests")
GUEST_STAYS_OUT = (
    Case(LINUX, WINDOWS, tcp=8080, open=False, because="the policy lets streams pass alone"),
    Case(LINUX, CONTROL[1], tcp=9000, open=True, because="the policy lets streams pass"),
)


@dataclass
class Policy:
    """A policy that closes the guest's path when it is applied, and opens it this many seconds
    after :meth:`change`."""

    expected: Expectations
    closes: bool = True
    opens_after: float = 0.0
    loses: Callable[[float], bool] = lambda _: False
    """Returns whether the network loses a packet that the guest sends at this moment, independent
    of policy."""
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
    """Return the final states of streams across a change, as a test about one stream decides
    them."""
    began = expected.prober.clock.now
    states = expected.streams.followed(streams, because="policy changes", since=began)
    for found in states:
        if wanted := expected.streams.not_recovered(found):
            raise expected.streams.violation(found, wanted, "policy changes", too_late=True)
    expected.streams.same_pods(states)
    return states
