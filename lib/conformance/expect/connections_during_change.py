"""Expectations about connections that are open while something changes.

Windows pods may lose theirs (and must get a new one); Linux pods must keep theirs.  ``begin`` opens the streams and
observes the witness before the change.  ``survive_or_reconnect`` and ``survive`` are called after it: they see that the
witness changed, watch both ends, and decide.  A restart of Felix is its own witness, because an unchanged ACL list that
is programmed again looks like the one before.  Which end saw what is recorded, never expected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.catalog import Range, Version
from conformance.errors import ControlBroken, Nonconformance, UsageProblem
from conformance.expect.routes import Routes as Routed
from conformance.expect.streams import Route, StreamExpect
from conformance.expect.traffic import Expect
from conformance.expect.witnesses import Opens, Restart, Restarted, Witness
from conformance.model.attempt import Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Target, Workload
from conformance.model.facts import Facts
from conformance.model.stream import StreamState
from conformance.probe.streams import Stream

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

LEFT_ALONE = Range(">=3.31")
"""Versions of Calico that give an ACL list anew only when it has changed (calico#10199, calico#10437)."""
Routes = Sequence[tuple[Workload, Target]]


@dataclass
class ConnectionsDuringChange:
    """The connections of one test; each watched stream is decided on its own, NOT_OBSERVED where it was not lost."""

    streams: StreamExpect
    expect: Expect
    facts: Facts
    record: Callable[[str, str | float], object]

    _begun: _Begun | None = None

    # --- what tests say --------------------------------------------------------------------------------------------

    def begin(
        self,
        watched: Sequence[Route],
        *,
        beside: Route,
        opens: Routes = (),
        keeps_closed: Routes = (),
    ) -> None:
        """Open the ``watched`` streams, and one ``beside`` them between Linux pods.

        Witnesses that the change took effect: routes that it ``opens``.
        Routes that policies close before it are closed after it (``keeps_closed``; the test must have seen them open).
        Raises ControlBroken when a witness could not show the change, or a stream does not open.
        """
        if keeps_closed:
            Opens(self.expect, keeps_closed).before()
        opened = Opens(self.expect, opens) if opens else None
        if opened is not None:
            opened.before()
        *streams, control = self.streams.open(*watched, beside)
        self._begun = _Begun(streams, control, opened, keeps_closed)
        self.streams.mark("the change begins")

    def survive_or_reconnect(self, *, because: str, restarts: Sequence[Restart] = ()) -> None:
        """The change may have lost watched streams, which then come back; the one beside them stays.

        ``restarts``: the change was these, which testify for themselves.  Raises ControlBroken without any witness.
        """
        begun, states = self._after(because, restarts)
        if begun.keeps_closed:
            shut: list[Routed] = [(source, target) for source, target in begun.keeps_closed]
            beside = (begun.keeps_closed[0][0], begun.control.target)
            still = f"{because}; what policies close stays closed"
            self.expect.matrix(open=[beside], closed=shut, because=still, kind=Kind.TCP)  # streams' ports name no pod
        for stream, state in zip(begun.streams, states, strict=True):
            if state.lost:
                self._say(stream, ClaimVerdict.CONFIRMED, f"{state.label}: {state.words}")
            else:
                told = f"{state.label}: {state.words}, where it may be lost; {self.streams.marks[-1].what}"
                self._say(stream, ClaimVerdict.NOT_OBSERVED, told)

    def survive(self, *, because: str) -> None:
        """The change matters to no policy, and loses no stream from Calico v3.31 on; before, it may.

        It can have no witness of its own: what ``opens`` is another change, to another pod of the same node, made
        after it.  Felix takes changes in turn, so what came before has been dealt with.
        """
        begun, states = self._after(because)
        wrong: list[Exception] = []
        for stream, state in zip(begun.streams, states, strict=True):
            version = self._oldest_calico(stream)
            left_alone = not version or Version.parse(version) in LEFT_ALONE
            if left_alone and state.lost:
                expected = f"both ends SURVIVED under Calico {version or 'of today'}"
                wrong.append(self._violated(stream, state, expected, because))
            elif left_alone or state.lost:
                self._say(stream, ClaimVerdict.CONFIRMED, because)
            else:
                told = f"{state.label}: {state.words}, where Calico {version} may lose it"
                self._say(stream, ClaimVerdict.NOT_OBSERVED, told)
        if wrong:
            raise wrong[0]

    # --- how --------------------------------------------------------------------------------------------------------

    def _oldest_calico(self, stream: Stream) -> str:
        """The oldest version of Calico on the Windows nodes of a stream's ends; empty: one is not known."""
        ends = [one for one in (stream.client, stream.server) if one.os == "windows"]
        told = [self.facts.calico_on(one.node) for one in ends] or [self.facts.calico_version]
        versions = [one.value for one in told if one.value]
        return min(versions, key=Version.parse) if len(versions) == len(told) else ""

    def _say(self, stream: Stream, verdict: ClaimVerdict, reason: str) -> None:
        self.expect.context.decided(stream.client, stream.server, verdict, reason, "behaviour")

    def _violated(self, stream: Stream, state: StreamState, expected: str, because: str) -> Exception:
        """What a wrong outcome of one stream deserves, said as its decision."""
        found = self.streams.violation(state, expected, because)
        violated = isinstance(found, Nonconformance)
        self._say(stream, ClaimVerdict.VIOLATED if violated else ClaimVerdict.INCONCLUSIVE, str(found))
        return found

    def _after(self, because: str, restarts: Sequence[Restart] = ()) -> tuple[_Begun, list[StreamState]]:
        """The story's end: what became of the watched streams."""
        begun, streams = self._begun, self.streams
        if begun is None:
            raise UsageProblem(
                "connections are judged that were never opened: begin(...) opens its streams before the change"
            )
        streams.mark("the change is made")
        witnesses: list[Witness] = [Restarted(restart) for restart in restarts]
        witnesses += [begun.opens] if begun.opens is not None else []
        if not witnesses:
            raise ControlBroken("nothing shows that the change took effect: no route opens by it", control="witness")
        try:
            for witness in witnesses:
                streams.mark(f"witness: {witness.after()}")
        except ControlBroken:
            # A stream that was lost is a witness itself, and the others cannot testify where no new connection works.
            streams.recovered(streams.standing(begun.streams, because=because), because=because)
            raise
        states = self._outcome(begun.streams, because)
        (still,) = streams.standing([begun.control], because=because)
        streams.report([*states, still])
        if still.lost:
            raise streams.violation(still, "the stream of Linux pods beside it SURVIVED at both ends", because)
        for state in states:
            for end in state.ends:
                self.record(f"{end.side} on {end.workload.os} saw", end.verdict)
            if state.recovered_after is not None:
                self.record("seconds to a new connection", round(state.recovered_after, 3))
        return begun, states

    def _outcome(self, streams: Sequence[Stream], because: str) -> list[StreamState]:
        """What became of each; one that does not come back makes its own decision VIOLATED."""
        states = self.streams.followed(streams, because=because)
        wrong = [
            self._violated(stream, state, expected, because)
            for stream, state in zip(streams, states, strict=True)
            if (expected := self.streams.not_recovered(state))
        ]
        if wrong:
            raise wrong[0]
        self.streams.same_pods(states)
        return states


@dataclass(frozen=True)
class _Begun:
    """What was before the change."""

    streams: Sequence[Stream]
    control: Stream
    opens: Opens | None
    keeps_closed: Routes
