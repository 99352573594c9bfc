# SPDX-License-Identifier: Apache-2.0
"""Expectations about connections that are open while something changes. Windows pods may lose their
connections (and must then get a new one); Linux pods must keep theirs.

``begin`` opens the connections (streams) before any policy is applied. ``under`` applies the
policies that will change, and waits until they close the witness: a path that the change opens, to
show that the change took effect. ``survive_or_reconnect`` and ``survive`` are called after the
change: they wait until the witness opens, watch both ends of the streams, and decide.

A restart of Felix needs no other witness, because an unchanged ACL list looks the same once it is
programmed again. The events at each end are recorded, but no expectation is about them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from conformance.catalog import Range, Version
from conformance.errors import ControlBroken, Nonconformance, UsageProblem
from conformance.expect.case import Row, rows_of
from conformance.expect.path_decisions import Policies
from conformance.expect.subjects.streams import StreamExpect
from conformance.expect.subjects.witnesses import Opens, Restarted, Witness
from conformance.expect.traffic import Expect
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.facts import Facts
from conformance.model.restart import Restart
from conformance.model.stream import StreamState
from conformance.pods.groups import PodPair
from conformance.probe.streams import Stream
from conformance.timing import until
from conformance.verdicts.meaning import of_chance, of_failure

LEFT_ALONE = Range(">=3.31")
"""Versions of Calico that program an ACL list again only if it has changed (calico#10199,
calico#10437)."""


ROUNDS = 3
"""The number of times in a row that streams may be lost because of earlier changes."""


@dataclass
class ConnectionsDuringChange:
    """The connections of a test. Each watched stream has its own decision; a stream that survived
    is NOT_OBSERVED."""

    streams: StreamExpect
    expect: Expect
    facts: Facts
    record: Callable[[str, str | float], object]

    _begun: _Begun | None = None

    # --- for tests --------------------------------------------------------------------------------------------

    def begin(self, watched: Sequence[PodPair], *, beside: PodPair) -> None:
        """Open the ``watched`` streams, and one stream ``beside`` them between Linux pods; no
        policy is in force yet.

        Raise ControlBroken if a stream does not open.
        """
        *streams, control = self.streams.open(*watched, beside)
        self._begun = _Begun(dict(zip(watched, streams, strict=True)), beside, control)

    def under(self, *policies_and_rows: Policies | Row) -> None:
        """Apply policies that close paths and let streams pass, as the rows say; these policies are
        in force when the change begins.

        A stream that is lost now does not count for the coming change and is opened again. Applying
        policies is a change as well: raise Nonconformance if a stream does not reconnect in time,
        or if the policies do not close a path. Raise ControlBroken if the paths cannot be decided,
        or if the Linux stream does not open.
        """
        begun = self._opened()
        because = next(iter(rows_of(policies_and_rows).values())).because
        watched = list(begun.streams.values())
        try:
            Opens(self.expect).closed_by(*policies_and_rows)
        except (ControlBroken, Nonconformance):
            self._come_back(watched, because)
            raise
        again = self._come_back(watched, because, witnessed=True)
        (beside_them,) = self.streams.standing([begun.control], because=because)
        control = self.streams.open(begun.beside)[0] if beside_them.lost else begun.control
        if lost := sum(
            new is not old
            for new, old in zip((*again, control), (*watched, begun.control), strict=True)
        ):
            self.streams.mark(
                f"{counted(lost, 'stream')} lost when the policies were applied: opened again"
            )
        self._begun = _Begun(dict(zip(begun.streams, again, strict=True)), begun.beside, control)
        self.streams.mark("the change begins")

    def quiet(self, *, because: str) -> None:
        """Wait until no stream has been lost for the time that a change of policy may need, so that
        later losses are not due to earlier changes. Lost streams are opened again.

        Raise ControlBroken if streams are lost :data:`ROUNDS` times although nothing changes.
        """
        expect = self.expect
        change = expect.context.world.change()
        since = change.at if change else expect.clock.monotonic()
        for _ in range(ROUNDS):
            begun = self._opened()
            watched = list(begun.streams.values())
            ends = {end.os for stream in watched for end in (stream.client, stream.server)}
            patience = max(expect.timings.of(os).policy_effect for os in ends)
            settled = until(
                lambda watched=watched: self.streams.streams.look(watched),  # type: ignore[misc]
                lambda states: any(state.lost for state in states),
                within=max(since + patience - expect.clock.monotonic(), 0.0),
                every=min(expect.timings.of(os).poll_every for os in ends),
                description=because,
                clock=expect.clock,
            )
            if not settled.converged:
                return
            again = self._come_back(watched, because)
            self._begun = replace(begun, streams=dict(zip(begun.streams, again, strict=True)))
            self.streams.mark("streams lost by earlier changes: opened again")
            since = expect.clock.monotonic()
        raise ControlBroken(
            f"streams were lost {ROUNDS} times although nothing changed", control="quiet"
        )

    def survive_or_reconnect(
        self,
        streams: Sequence[PodPair],
        *opened: Row,
        survives: PodPair,
        restarts: Sequence[Restart] = (),
        still: Sequence[Row] = (),
        because: str,
    ) -> list[StreamState]:
        """Expect each stream to survive the change or to reconnect, and the Linux stream
        ``survives`` to survive. Return the streams' states, in the order of the streams.

        Two kinds of witnesses show that the change took effect: the paths that the change
        ``opened``, and the ``restarts`` of Felix themselves. Raise ControlBroken without a witness.
        ``still``: rows with the same result before and after the change.
        """
        chosen, states = self._after(
            streams, survives, opened, restarts, still=still, because=because
        )
        for stream, state in zip(chosen, states, strict=True):
            if state.lost:
                self._say(stream, of_chance(True), f"{state.label}: {state.words}")
            else:
                text = (
                    f"{state.label}: {state.words}, although survival is not required; "
                    f"{self.streams.marks[-1].what}"
                )
                self._say(stream, of_chance(False), text)
        return states

    def survive(
        self, streams: Sequence[PodPair], *opened: Row, survives: PodPair, because: str
    ) -> None:
        """Expect these streams to survive, since the change affects no policy; before Calico v3.31
        they may be lost.

        Such a change has no effect that could be its witness. The witness is a later change to
        another pod of the same node, which opens the paths ``opened``. Felix handles changes in
        order, so by then it has handled the earlier change.
        """
        chosen, states = self._after(streams, survives, opened, because=because)
        wrong: list[Exception] = []
        for stream, state in zip(chosen, states, strict=True):
            version = self._oldest_calico(stream)
            left_alone = not version or Version.parse(version) in LEFT_ALONE
            if state.lost and not version:
                text = (
                    f"{state.label}: {state.words}; Calico's version on Windows nodes is not known,"
                    " and before v3.31 "
                )
                self._say(
                    stream,
                    of_chance(None),
                    f"{text}Calico may reset the stream; name the version with "
                    "--windows-calico-version",
                )
            elif left_alone and state.lost:
                wrong.append(
                    self._violated(
                        stream, state, f"both ends to survive under Calico {version}", because
                    )
                )
            elif left_alone or state.lost:
                self._say(stream, of_chance(True), because)
            else:
                text = f"{state.label}: {state.words}, and Calico {version} may reset the stream"
                self._say(stream, of_chance(False), text)
        if wrong:
            raise wrong[0]

    # --- how --------------------------------------------------------------------------------------------------------

    def _oldest_calico(self, stream: Stream) -> str:
        """Return the oldest version of Calico on the Windows nodes of a stream's ends. Return an
        empty string if a version is not known."""
        ends = [workload for workload in (stream.client, stream.server) if workload.os == "windows"]
        reported = [self.facts.calico_on(workload.node) for workload in ends] or [
            self.facts.calico_version
        ]
        versions = [fact.value for fact in reported if fact.value]
        return min(versions, key=Version.parse) if len(versions) == len(reported) else ""

    def _say(self, stream: Stream, verdict: ClaimVerdict, reason: str) -> None:
        self.expect.context.of_part(f"{stream.client.os} to {stream.server.os}").decided(
            stream.client, stream.server, verdict, reason, "behaviour"
        )

    def _violated(
        self,
        stream: Stream,
        state: StreamState,
        expected: str,
        because: str,
        then: str = "",
        *,
        too_late: bool = False,
    ) -> Exception:
        """Return the exception for a stream's wrong outcome, as ``StreamExpect.violation`` does,
        and record the decision about the stream."""
        found = self.streams.violation(state, expected, because, then, too_late=too_late)
        self._say(stream, of_failure(found), str(found))
        return found

    def _opened(self) -> _Begun:
        if self._begun is None:
            raise UsageProblem("no connection was opened: call begin(...) before the change")
        return self._begun

    def _after(
        self,
        watched: Sequence[PodPair],
        survives: PodPair,
        opened: Sequence[Row],
        restarts: Sequence[Restart] = (),
        *,
        still: Sequence[Row] = (),
        because: str,
    ) -> tuple[list[Stream], list[StreamState]]:
        """Return the watched streams, in which new streams replace lost streams, and the states of
        the watched streams.

        The ``still`` rows are checked while the streams are watched, to save time.
        """
        begun = self._opened()
        streams = self.streams
        if survives != begun.beside or not set(watched) <= set(begun.streams):
            raise UsageProblem(
                "these connections were never opened; begin(...) opened other connections"
            )
        chosen = [begun.streams[pair] for pair in watched]
        streams.mark("the change is made")
        witnesses: list[Witness] = [Restarted(restart) for restart in restarts]
        witnesses += [Opens(self.expect, opened)] if opened else []
        if not witnesses:
            raise ControlBroken(
                "nothing shows that the change took effect, since it opens no path",
                control="witness",
            )
        try:
            for witness in witnesses:
                streams.mark(f"witness: {witness.after()}")
        except ControlBroken:
            # A lost stream is a witness, too. If new connections fail, the other witnesses cannot
            # connect either.
            self._come_back(chosen, because)
            raise
        observed = self.expect.clock.monotonic()
        if still:
            self.expect.matrix(*still)
        states = self._outcome(chosen, because, since=observed)
        (beside,) = streams.standing([begun.control], because=because)
        streams.report([*states, beside])
        if beside.lost:
            raise streams.violation(
                beside, "the control stream (Linux to Linux) to survive at both ends", because
            )
        for state in states:
            for end in state.ends:
                self.record(f"{end.side} on {end.workload.os} saw", end.verdict)
            if state.recovered_after is not None:
                self.record("seconds to a new connection", round(state.recovered_after, 3))
        return chosen, states

    def _outcome(
        self, streams: Sequence[Stream], because: str, *, since: float
    ) -> list[StreamState]:
        """Return the result of each stream; a stream that does not reconnect is VIOLATED."""
        states = self.streams.followed(streams, because=because, since=since)
        self._demand_recovery(streams, states, because, witnessed=True)
        self.streams.same_pods(states)
        return states

    def _come_back(
        self, streams: Sequence[Stream], because: str, *, witnessed: bool = False
    ) -> list[Stream]:
        """Wait until each stream is decided, reopen lost streams, and return all streams.

        Raise the errors of :meth:`_demand_recovery`, also for a stream that cannot be reopened: a
        single new connection that worked does not show that the next connection will work.
        """
        states = self.streams.standing(streams, because=because)
        self._demand_recovery(streams, states, because, witnessed=witnessed)
        return [
            self._again(stream, state, because) if state.lost else stream
            for stream, state in zip(streams, states, strict=True)
        ]

    def _again(self, stream: Stream, state: StreamState, because: str) -> Stream:
        """Open a stream in place of a lost stream."""
        try:
            return self.streams.open((stream.client, stream.server))[0]
        except ControlBroken as broken:
            raise self._violated(
                stream,
                state,
                "new connections after the loss",
                because,
                str(broken.__cause__).removeprefix(f"stream {state.label}: "),
            ) from broken

    def _demand_recovery(
        self,
        streams: Sequence[Stream],
        states: Sequence[StreamState],
        because: str,
        *,
        witnessed: bool,
    ) -> None:
        """Record a violation for each stream without a new connection in time, and raise the first.

        The other streams are decided, too: lost streams, and streams that survived if a witness
        shows that the change took effect (``witnessed``).
        """
        late = [self.streams.not_recovered(state) for state in states]
        if not any(late):
            return
        self.streams.report(states)
        wrong: list[Exception] = []
        for stream, state, expected in zip(streams, states, late, strict=True):
            if expected:
                wrong.append(self._violated(stream, state, expected, because, too_late=True))
            elif witnessed or state.lost:
                self._say(stream, of_chance(state.lost), f"{state.label}: {state.words}")
        raise wrong[0]


@dataclass(frozen=True)
class _Begun:
    """The state before the change."""

    streams: Mapping[PodPair, Stream]
    beside: PodPair
    control: Stream
    """The Linux stream, which is the control of the other streams."""
