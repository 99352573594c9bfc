"""A change while streams are up: which may lose the streams of Windows pods, and must not lose those of Linux pods.

``begin`` opens the streams and sees the witness before the change; ``may_lose`` and ``loses_nothing``, after it, see
the witness changed, watch both ends, and decide.  A restart of Felix is its own witness: an unchanged ACL list given
anew is not to be told from the one before.  Which end saw what is recorded, never expected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.catalog import Range, Version
from conformance.errors import ControlBroken, UsageProblem
from conformance.expect.routes import Routes as Routed
from conformance.expect.streams import Route, StreamExpect
from conformance.expect.traffic import Expect
from conformance.expect.witnesses import Opens, Restart, Restarted, Witness
from conformance.model.attempt import Kind
from conformance.model.endpoint import Target, Workload
from conformance.model.facts import Facts
from conformance.model.stream import StreamState
from conformance.probe.streams import Stream

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

LEFT_ALONE = Range(">=3.31")
"""Versions of Calico that give an ACL list anew only when it has changed (calico#10199, calico#10437)."""
Routes = Sequence[tuple[Workload, Target]]


@dataclass
class Upheaval:
    """Upheavals of one test; ``not_observed`` tells the report that what may happen did not."""

    streams: StreamExpect
    expect: Expect
    facts: Facts
    record: Callable[[str, str | float], object]
    not_observed: Callable[[str], None]

    _begun: _Begun | None = None

    # --- what tests say --------------------------------------------------------------------------------------------

    def begin(
        self,
        watched: Route,
        *,
        beside: Route,
        opens: Routes = (),
        keeps_closed: Routes = (),
    ) -> None:
        """Open the ``watched`` stream, and one ``beside`` it between Linux pods.

        Witnesses that the change took effect: routes that it ``opens``.
        Routes that policies close before it are closed after it (``keeps_closed``; the test must have seen them open).
        Raises ControlBroken when a witness could not show the change, or a stream does not open.
        """
        if keeps_closed:
            Opens(self.expect, keeps_closed).before()
        opened = Opens(self.expect, opens) if opens else None
        if opened is not None:
            opened.before()
        stream, control = self.streams.open(watched, beside)
        self._begun = _Begun(stream, control, opened, keeps_closed)
        self.streams.mark("the change begins")

    def may_lose(self, *, because: str, restart: Restart | None = None) -> None:
        """The change may have lost the watched stream, which then comes back; the one beside it stays.

        ``restart``: the change was this one, which testifies for itself.  Raises ControlBroken without any witness.
        """
        begun, state = self._after(because, restart)
        if begun.keeps_closed:
            shut: list[Routed] = [(source, target) for source, target in begun.keeps_closed]
            beside = (begun.keeps_closed[0][0], begun.control.target)
            still = f"{because}; what policies close stays closed"
            self.expect.matrix(open=[beside], closed=shut, because=still, kind=Kind.TCP)  # streams' ports name no pod
        if not state.lost:
            self.not_observed(f"{state.label}: {state.words}, where it may be lost; {self.streams.marks[-1].what}")

    def loses_nothing(self, *, because: str) -> None:
        """The change matters to no policy, and loses no stream from Calico v3.31 on; before, it may.

        It can have no witness of its own: what ``opens`` is another change, to another pod of the same node, made
        after it.  Felix takes changes in turn, so what came before has been dealt with.
        """
        _, state = self._after(because)
        version = self.facts.calico_version.value or ""
        if not version or Version.parse(version) in LEFT_ALONE:
            if state.lost:
                raise self.streams.violation(state, f"both ends SURVIVED under Calico {version or 'of today'}", because)
        elif not state.lost:
            self.not_observed(f"{state.label}: {state.words}, where Calico {version} may lose it")

    # --- how --------------------------------------------------------------------------------------------------------

    def _after(self, because: str, restart: Restart | None = None) -> tuple[_Begun, StreamState]:
        """The story's end: what became of the watched stream."""
        begun, streams = self._begun, self.streams
        if begun is None:
            raise UsageProblem("an upheaval ends that never began: begin(...) opens its streams before the change")
        streams.mark("the change is made")
        witnesses: list[Witness] = [Restarted(restart)] if restart is not None else []
        witnesses += [begun.opens] if begun.opens is not None else []
        if not witnesses:
            raise ControlBroken("nothing shows that the change took effect: no route opens by it", control="witness")
        try:
            for witness in witnesses:
                streams.mark(f"witness: {witness.after()}")
        except ControlBroken:
            # A stream that was lost is a witness itself, and the others cannot testify where no new connection works.
            streams.recovered(streams.standing([begun.stream], because=because), because=because)
            raise
        (state,) = streams.outcome([begun.stream], because=because)
        (still,) = streams.standing([begun.control], because=because)
        streams.report([state, still])
        if still.lost:
            raise streams.violation(still, "the stream of Linux pods beside it SURVIVED at both ends", because)
        for end in state.ends:
            self.record(f"{end.side} on {end.workload.os} saw", end.verdict)
        if state.recovered_after is not None:
            self.record("seconds to a new connection", round(state.recovered_after, 3))
        return begun, state


@dataclass(frozen=True)
class _Begun:
    """What was before the change."""

    stream: Stream
    control: Stream
    opens: Opens | None
    keeps_closed: Routes
