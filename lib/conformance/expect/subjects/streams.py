# SPDX-License-Identifier: Apache-2.0
"""Expectations about long-lived connections, watched at both ends: they survive, or are reset.

A stream that does not open (ControlBroken), or an agent that breaks (ProbeBroken), is never a
verdict about resets. A stall that is over when the watching ends was a pause, and no loss.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance, SuiteError
from conformance.expect import owners
from conformance.expect.explain import message, timeline
from conformance.expect.explain.timeline import Mark
from conformance.expect.guard import pods_unchanged, unless_changed
from conformance.expect.machine_lag import OVERWHELMED, REMEDY
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.explanation import Explanation
from conformance.model.stream import StreamState, StreamVerdict
from conformance.pods.groups import PodPair
from conformance.probe.clocks import unix
from conformance.probe.streams import NotOpened, Stream, Streams
from conformance.settings import OsTimings
from conformance.timing import Settled, until

LATE = 3
"""The multiple of ``stream_watch`` after which a changed ACL list resets no more streams."""


@dataclass
class StreamExpect:
    """The streams of a test; they are closed at the test's end."""

    streams: Streams
    expect: Expect
    marks: list[Mark] = field(default_factory=list)
    """Actions and observations of the suite, for the time line."""
    _given: float = 0.0
    """Additional seconds for a new connection, because the machine was overloaded."""
    _waits_since: float = 0.0
    """When the wait for a new connection began, by the expectation's clock."""
    _open: list[Stream] = field(default_factory=list)

    # --- for tests --------------------------------------------------------------------------------------------

    def open(self, *pairs: PodPair) -> list[Stream]:
        """Open a stream for each pair. Raise ControlBroken if a stream does not open because of the
        network."""
        try:
            opened = self.streams.open(pairs)
        except NotOpened as failed:
            path, _, what = str(failed).removeprefix("stream ").partition(": ")
            ends = next(
                (pair for pair in pairs if pair[0].label in path and pair[1].address in path),
                pairs[0],
            )
            text = Explanation(
                claims=self.expect.context.claims,
                path=f"{path}  stream",
                expected="a stream that opens and stays",
                observed=what or "nothing",
                where=f"{ends[0].node} to {ends[1].node}",
                lines={
                    "do": "see CONN-3 for this pair of pods first, then Felix' log on their nodes"
                },
            )
            raise ControlBroken(message.of_control(text), control="stream") from failed
        self._open += opened
        return opened

    def followed(
        self, streams: Sequence[Stream], *, because: str, since: float
    ) -> list[StreamState]:
        """Return the state of each watched stream. A stream may have been lost, and may have
        recovered. ``since``: when the change took effect, in seconds of the expectation's clock.
        The agents at both ends watch the stream, even while the suite does something else."""
        patience = self._patience(streams)
        self._watch(
            streams,
            lambda states: all(
                self._decided(state, patience) and all(end.lost for end in state.ends)
                for state in states
            ),
            because,
            since,
        )
        states = self.standing(streams, because=because)
        self.report(states)
        return states

    def not_recovered(self, state: StreamState) -> str:
        """Return the unmet expectation, if a lost stream got no new connection in time. Return an
        empty string if the stream is not lost, or reconnected in time."""
        within = max(self.expect.timings.of(end.workload.os).stream_recover for end in state.ends)
        after = state.recovered_after
        if state.lost and after is not None and after > within and not self._given:
            self._more(within, self.expect.clock.monotonic() - after)
        within += self._given
        late = after is None or after > within
        return f"a new connection within {within:g} s of the loss" if state.lost and late else ""

    def standing(self, streams: Sequence[Stream], *, because: str) -> list[StreamState]:
        """Wait until each lost stream has recovered or its time to recover is over, then return the
        state of each stream. A stall counts as a loss if it lasts long enough."""
        patience = self._patience(streams)
        self._given = 0.0
        states = self.streams.look(streams)
        if all(not state.lost for state in states):
            return states
        settled = until(
            lambda: self.streams.look(streams),
            lambda now: all(not state.lost or self._decided(state, patience) for state in now),
            within=max(timings.stream_recover for timings in patience),
            every=min(timings.poll_every for timings in patience),
            description=because,
            clock=self.expect.clock,
            more=self._more,
        )
        return settled.last

    def _more(self, within: float, began: float) -> float:
        self._given = self.expect.context.pace.machine.more(within, began)
        self._waits_since = began
        return self._given

    def same_pods(self, states: Sequence[StreamState]) -> None:
        """Raise EnvironmentBroken if a pod was replaced, since this explains a loss."""
        pods_unchanged(
            self.expect,
            [end.workload for state in states for end in state.ends],
            doubtful=any(state.lost for state in states),
        )

    def report(self, states: Sequence[StreamState]) -> None:
        """Put the time lines into the report."""
        self.expect.context.sink.attach("streams", timeline.whole(states, self.marks))

    def mark(self, what: str) -> None:
        """Add an event to the time line."""
        self.marks.append(Mark(time.time(), what))

    def close(self) -> None:
        """Close the test's streams; a stream that cannot be closed ends with its agent."""
        for stream in self._open:
            try:
                self.streams.close([stream])
            except SuiteError as error:
                self.expect.context.sink.attach("streams not closed", str(error))
        self._open.clear()

    def violation(
        self,
        state: StreamState,
        expected: str,
        because: str,
        then: str = "",
        *,
        too_late: bool = False,
    ) -> Exception:
        """Return the error for a wrong outcome. Return another error if a replaced pod, or a
        foreign policy that changed since the stream opened, explains the outcome.

        ``then``: a text about later events, appended to the observations of both ends.
        ``too_late``: only a time limit was exceeded, which is excused if the lab's machine was
        overloaded all the time.
        """
        context = self.expect.context
        source = state.client.workload
        attempt = Attempt(
            source=source,
            target=state.target,
            kind=Kind.TCP,
            give_up_after=self.expect.timings.of(source.os).tcp_give_up,
        )
        now = time.time()
        opened = min((event.at for event, _ in state.timeline), default=now)
        lines = {
            "because": because,
            "policies": ", ".join(context.world.policies()),
            "Felix": context.felix_on(*(end.workload for end in state.ends)),
            "do": _advice(state),
        }
        text = Explanation(
            claims=context.claims,
            path=f"{state.label}  stream",
            expected=expected,
            where=attempt.nodes,
            observed=f"{state.words}, then {then}" if then else state.words,
            tries=max(1, state.recovery_tries),
            seconds=now - (state.lost_at or opened),
            lines={name: line for name, line in lines.items() if line},
            table=timeline.excerpt(state, self.marks),
        )
        if (
            too_late
            and self._given
            and context.pace.machine.overwhelmed(self._waits_since, self.expect.clock.monotonic())
        ):
            context.pace.machine.excused += 1
            text = replace(text, lines=text.lines | {"do": REMEDY})
            return EnvironmentBroken(message.explained(text, by=OVERWHELMED))
        wrong = Nonconformance(text)
        wrong.paths = [attempt]
        return self._unless_explained(state, wrong, text, opened - unix(0.0))

    def _unless_explained(
        self, state: StreamState, wrong: Nonconformance, text: Explanation, opened: float
    ) -> Exception:
        """Return ``wrong``, or the error that names another cause: changed pods, a foreign policy
        or a change of another run.

        ``opened``: seconds of the monotonic clock at which the stream opened.
        """
        context = self.expect.context
        source = state.client.workload
        explained = unless_changed(self.expect, [end.workload for end in state.ends], wrong)
        by = context.world.others.excuse(
            source,
            state.target,
            "closed",
            protocol="TCP",
            times=owners.Times(opened, otherwise=opened),
        )
        if explained is not wrong:
            return explained
        if by:
            return owners.decided(context.world.others, text, by, lasting=False)
        run = (
            context.world.runs.excuse(owners.nodes_of(source, state.target), opened)
            if state.lost
            else ""
        )
        return owners.decided(context.world.runs, text, run) if run else wrong

    # --- how they are decided --------------------------------------------------------------------------------------

    def _watch(
        self,
        streams: Sequence[Stream],
        done: Callable[[Sequence[StreamState]], bool],
        because: str,
        since: float,
    ) -> Settled[list[StreamState]]:
        patience = self._patience(streams)
        # a change of the list may reset streams much later; watch until all streams are lost
        ends = since + LATE * max(timings.stream_watch for timings in patience)
        return until(
            lambda: self.streams.look(streams),
            done,
            within=max(ends - self.expect.clock.monotonic(), 0.0),
            every=min(timings.poll_every for timings in patience),
            description=because,
            clock=self.expect.clock,
        )

    @staticmethod
    def _decided(state: StreamState, patience: Sequence[OsTimings]) -> bool:
        """Return whether the stream is lost and has reconnected. A stalled stream counts as lost
        after a silence of two stall times."""
        stall = 2 * max(timings.stream_stall for timings in patience)
        gone = any(
            end.lost and (end.verdict is not StreamVerdict.STALLED or (end.quiet or 0.0) >= stall)
            for end in state.ends
        )
        return gone and state.recovered_after is not None

    def _patience(self, streams: Sequence[Stream]) -> list[OsTimings]:
        systems = sorted(
            {workload.os for stream in streams for workload in (stream.client, stream.server)}
        )
        return [self.expect.timings.of(system) for system in systems]


def _advice(state: StreamState) -> str:
    """Return where to look for the cause of a loss."""
    ends = [end.workload for end in state.ends]
    nodes = " and ".join(dict.fromkeys(f"node {workload.node}" for workload in ends))
    acls = " and ".join(
        dict.fromkeys(f"node {workload.node}" for workload in ends if workload.os == "windows")
    )
    shown = f"the ACLs in Get-HnsEndpoint on {acls}, and " if acls else ""
    return f"test a new connection by hand; read {shown}Felix' log on {nodes}"
