# SPDX-License-Identifier: Apache-2.0
"""Expectations about connections that are open while something changes.

Windows pods may lose theirs (and must get a new one); Linux pods must keep theirs.  ``begin`` opens the streams before
any policy is laid, ``under`` lays the policies that the change will be about and sees the witness closed by them.
``survive_or_reconnect`` and ``survive`` are called after the change: they see that the witness opened, watch both ends,
and decide.  A restart of Felix is its own witness, because an unchanged ACL list that is programmed again looks like
the one before.  Which end saw what is recorded, never expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from conformance.catalog import Range, Version
from conformance.errors import ControlBroken, Nonconformance, UsageProblem
from conformance.expect.subjects.streams import StreamExpect
from conformance.expect.subjects.witnesses import Opens, Restart, Restarted, Witness
from conformance.expect.traffic import Expect, Policies
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.endpoint import Pair
from conformance.model.facts import Facts
from conformance.model.stream import StreamState
from conformance.pods.groups import PodPair
from conformance.probe.streams import Stream
from conformance.verdicts.meaning import of_chance, of_failure

LEFT_ALONE = Range(">=3.31")
"""Versions of Calico that give an ACL list anew only when it has changed (calico#10199, calico#10437)."""


@dataclass
class ConnectionsDuringChange:
    """The connections of one test; each watched stream is decided on its own, NOT_OBSERVED where it was not lost."""

    streams: StreamExpect
    expect: Expect
    facts: Facts
    record: Callable[[str, str | float], object]

    _begun: _Begun | None = None

    # --- what tests say --------------------------------------------------------------------------------------------

    def begin(self, watched: Sequence[PodPair], *, beside: PodPair) -> None:
        """Open the ``watched`` streams, and one ``beside`` them between Linux pods; no policy is in force yet.

        Raises ControlBroken when one does not open.
        """
        *streams, control = self.streams.open(*watched, beside)
        self._begun = _Begun(dict(zip(watched, streams, strict=True)), beside, control)

    def under(self, *policies: Policies, closed: Sequence[Pair], because: str) -> None:
        """Lay ``policies``: they close these paths and let streams pass, and the change to come finds them at work.

        A stream that this loses says nothing about the change, and is opened again; one without a new connection in
        time, or later, is a Nonconformance, since this changes policy as well; so is a path that is not closed by it.
        Raises ControlBroken when nothing can be said of the paths, or the stream beside does not open.
        """
        begun = self._opened()
        sources = {source.uid: source for source, _ in closed}
        beside = [(source, begun.control.target) for source in sources.values()]
        watched = list(begun.streams.values())
        try:
            Opens(self.expect, closed).closed_by(policies, beside=beside, because=because)
        except (ControlBroken, Nonconformance):
            self._come_back(watched, because)
            raise
        again = self._come_back(watched, because)
        (beside_them,) = self.streams.standing([begun.control], because=because)
        control = self.streams.open(begun.beside)[0] if beside_them.lost else begun.control
        if lost := sum(
            new is not old
            for new, old in zip((*again, control), (*watched, begun.control), strict=True)
        ):
            self.streams.mark(
                f"{counted(lost, 'stream')} that the policies' laying lost: opened again"
            )
        self._begun = _Begun(dict(zip(begun.streams, again, strict=True)), begun.beside, control)
        self.streams.mark("the change begins")

    def survive_or_reconnect(
        self,
        streams: Sequence[PodPair],
        *,
        survives: PodPair,
        opened: Sequence[Pair] = (),
        restarts: Sequence[Restart] = (),
        still_closed: Sequence[Pair] = (),
        because: str,
    ) -> list[StreamState]:
        """The change may have lost these streams, each of which then comes back; the Linux one ``survives``.

        Witnesses that the change took effect: paths that it ``opened``, or ``restarts``, which testify for themselves.
        Without any, ControlBroken is raised.  Paths that policies close are ``still_closed`` after it.

        Returns how the streams stand, in their order.
        """
        chosen, states = self._after(
            streams, survives, opened, restarts, still_closed=still_closed, because=because
        )
        for stream, state in zip(chosen, states, strict=True):
            if state.lost:
                self._say(stream, of_chance(True), f"{state.label}: {state.words}")
            else:
                told = f"{state.label}: {state.words}, where it may be lost; {self.streams.marks[-1].what}"
                self._say(stream, of_chance(False), told)
        return states

    def survive(
        self, streams: Sequence[PodPair], *, survives: PodPair, opened: Sequence[Pair], because: str
    ) -> None:
        """The change matters to no policy, and loses none of these streams from Calico v3.31 on; before, it may.

        It can have no witness of its own: what is ``opened`` is another change, to another pod of the same node, made
        after it.  Felix takes changes in turn, so what came before has been dealt with.
        """
        chosen, states = self._after(streams, survives, opened, because=because)
        wrong: list[Exception] = []
        for stream, state in zip(chosen, states, strict=True):
            version = self._oldest_calico(stream)
            left_alone = not version or Version.parse(version) in LEFT_ALONE
            if state.lost and not version:
                told = (
                    f"{state.label}: {state.words}; Calico's version on Windows nodes is not known,"
                    " and before v3.31 "
                )
                self._say(
                    stream,
                    of_chance(None),
                    f"{told}it may lose it; --windows-calico-version names it",
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
                told = f"{state.label}: {state.words}, where Calico {version} may lose it"
                self._say(stream, of_chance(False), told)
        if wrong:
            raise wrong[0]

    # --- how --------------------------------------------------------------------------------------------------------

    def _oldest_calico(self, stream: Stream) -> str:
        """The oldest version of Calico on the Windows nodes of a stream's ends; empty: one is not known."""
        ends = [workload for workload in (stream.client, stream.server) if workload.os == "windows"]
        told = [self.facts.calico_on(workload.node) for workload in ends] or [
            self.facts.calico_version
        ]
        versions = [fact.value for fact in told if fact.value]
        return min(versions, key=Version.parse) if len(versions) == len(told) else ""

    def _say(self, stream: Stream, verdict: ClaimVerdict, reason: str) -> None:
        part = f"{stream.client.os} to {stream.server.os}"
        self.expect.context.of_part(part).decided(
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
        """What a wrong outcome of one stream deserves, said as its decision; as ``StreamExpect.violation`` has it."""
        found = self.streams.violation(state, expected, because, then, too_late=too_late)
        self._say(stream, of_failure(found), str(found))
        return found

    def _opened(self) -> _Begun:
        if self._begun is None:
            raise UsageProblem(
                "connections are judged that were never opened: begin(...) opens its streams before the change"
            )
        return self._begun

    def _after(
        self,
        watched: Sequence[PodPair],
        survives: PodPair,
        opened: Sequence[Pair],
        restarts: Sequence[Restart] = (),
        *,
        still_closed: Sequence[Pair] = (),
        because: str,
    ) -> tuple[list[Stream], list[StreamState]]:
        """The story's end: what became of the watched streams.

        What is ``still_closed`` is looked at while they are watched, so that both take the time of one.
        """
        begun = self._opened()
        streams = self.streams
        if survives != begun.beside or not set(watched) <= set(begun.streams):
            raise UsageProblem(
                "connections are judged that were never opened: begin(...) opened others"
            )
        chosen = [begun.streams[pair] for pair in watched]
        streams.mark("the change is made")
        witnesses: list[Witness] = [Restarted(restart) for restart in restarts]
        witnesses += [Opens(self.expect, opened)] if opened else []
        if not witnesses:
            raise ControlBroken(
                "nothing shows that the change took effect: no route opens by it", control="witness"
            )
        try:
            for witness in witnesses:
                streams.mark(f"witness: {witness.after()}")
        except ControlBroken:
            # A stream that was lost is a witness itself, and the others cannot testify where no new connection works.
            self._come_back(chosen, because)
            raise
        seen = self.expect.clock.monotonic()
        if still_closed:
            self._see_closed(still_closed, f"{because}; what policies close stays closed")
        states = self._outcome(chosen, because, since=seen)
        (still,) = streams.standing([begun.control], because=because)
        streams.report([*states, still])
        if still.lost:
            raise streams.violation(
                still, "the control stream (Linux to Linux) to survive at both ends", because
            )
        for state in states:
            for end in state.ends:
                self.record(f"{end.side} on {end.workload.os} saw", end.verdict)
            if state.recovered_after is not None:
                self.record("seconds to a new connection", round(state.recovered_after, 3))
        return chosen, states

    def _see_closed(self, pairs: Sequence[Pair], because: str) -> None:
        """All of them are closed, while each source reaches the server of the stream beside."""
        beside = [
            (source, self._opened().control.target)
            for source in {source.uid: source for source, _ in pairs}.values()
        ]
        self.expect.matrix(open=[beside], closed=[pairs], because=because)

    def _outcome(
        self, streams: Sequence[Stream], because: str, *, since: float
    ) -> list[StreamState]:
        """What became of each; one that does not come back makes its own decision VIOLATED."""
        states = self.streams.followed(streams, because=because, since=since)
        if any(map(self.streams.not_recovered, states)):  # the others are decided all the same
            for stream, state in zip(streams, states, strict=True):
                if not self.streams.not_recovered(state):
                    self._say(stream, of_chance(state.lost), f"{state.label}: {state.words}")
        self._demand_recovery(streams, states, because)
        self.streams.same_pods(states)
        return states

    def _come_back(self, streams: Sequence[Stream], because: str) -> list[Stream]:
        """Wait until each stream is decided, reopen lost ones, return all.

        Raises as :meth:`_demand_recovery`, and the same for one in whose place none opens: that a new connection worked
        at once does not say that the next one does.
        """
        states = self.streams.standing(streams, because=because)
        self._demand_recovery(streams, states, because)
        return [
            self._again(stream, state, because) if state.lost else stream
            for stream, state in zip(streams, states, strict=True)
        ]

    def _again(self, stream: Stream, state: StreamState, because: str) -> Stream:
        """One in place of a stream that is lost."""
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
        self, streams: Sequence[Stream], states: Sequence[StreamState], because: str
    ) -> None:
        """Each that is lost without a new connection in time is a violation of its own; raises the first."""
        wrong = [
            self._violated(stream, state, expected, because, too_late=True)
            for stream, state in zip(streams, states, strict=True)
            if (expected := self.streams.not_recovered(state))
        ]
        if wrong:
            self.streams.report(states)
            raise wrong[0]


@dataclass(frozen=True)
class _Begun:
    """What was before the change."""

    streams: Mapping[PodPair, Stream]
    beside: PodPair
    control: Stream
    """The one beside them."""
