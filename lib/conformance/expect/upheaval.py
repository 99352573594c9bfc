"""A change while streams are up: which may lose the streams of Windows pods, and must not lose those of Linux pods.

``with upheaval.of(...): policy.apply(...)`` opens the streams and sees the witness before; afterwards it sees the
witness changed, watches both ends, and decides.  Which end saw what is recorded, never expected.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from conformance.catalog import Range, Version
from conformance.errors import ControlBroken
from conformance.expect.streams import Route, StreamExpect
from conformance.expect.traffic import Expect
from conformance.expect.traffic import Routes as Routed
from conformance.expect.witnesses import Acls, GivenAnew, Opens, Witness
from conformance.model.endpoint import Target, Workload
from conformance.model.facts import Facts
from conformance.model.stream import StreamState
from conformance.pods.roles import STREAM_PORT

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

LEFT_ALONE = Range(">=3.31")
"""Versions of Calico that give an ACL list anew only when it has changed (calico#10199, calico#10437)."""
Routes = Sequence[tuple[Workload, Target]]


@dataclass
class Upheaval:
    """Upheavals of one test; ``not_observed`` tells the report that what may happen did not."""

    streams: StreamExpect
    expect: Expect
    acls: Acls
    facts: Facts
    record: Callable[[str, str | float], object]
    not_observed: Callable[[str], None]

    @contextmanager
    def of(
        self,
        watched: Route,
        *,
        beside: Route,
        because: str,
        opens: Routes = (),
        gives_anew: Sequence[Workload] = (),
        keeps_closed: Routes = (),
    ) -> Iterator[None]:
        """What happens inside may lose the ``watched`` stream, which then comes back; the one ``beside`` it stays.

        Witnesses that it took effect: routes that it ``opens``, Windows pods whose ACL list it ``gives_anew``.  Routes
        that policies close before it are closed after it (``keeps_closed``; this test must have seen them open).
        """
        if keeps_closed:
            Opens(self.expect, keeps_closed).before()
        witnesses: list[Witness] = [Opens(self.expect, opens)] if opens else []
        witnesses += [GivenAnew(self.expect, self.acls, gives_anew)] if gives_anew else []
        state = yield from self._change(watched, beside, witnesses, because)
        if keeps_closed:
            shut: list[Routed] = [(source, target) for source, target in keeps_closed]
            still = f"{because}; what policies close stays closed"
            self.expect.matrix(open=[(keeps_closed[0][0], beside[1].tcp(STREAM_PORT))], closed=shut, because=still)
        if not state.lost:
            self.not_observed(f"{state.label}: {state.words}, where it may be lost; {self.streams.marks[-1].what}")

    @contextmanager
    def trifle(
        self, watched: Route, *, beside: Route, because: str, then: Callable[[], object], opens: Routes
    ) -> Iterator[None]:
        """What happens inside matters to no policy, and loses no stream from Calico v3.31 on; before, it may.

        It can have no witness of its own.  ``then`` is a change to another pod of the same node, and ``opens`` routes:
        Felix takes changes in turn, so what came before it has been dealt with.
        """
        state = yield from self._change(watched, beside, [Opens(self.expect, opens)], because, then)
        version = self.facts.calico_version.value or ""
        if not version or Version.parse(version) in LEFT_ALONE:
            if state.lost:
                raise self.streams.violation(state, f"both ends SURVIVED under Calico {version or 'of today'}", because)
        elif not state.lost:
            self.not_observed(f"{state.label}: {state.words}, where Calico {version} may lose it")

    def _change(
        self,
        watched: Route,
        beside: Route,
        witnesses: Sequence[Witness],
        because: str,
        then: Callable[[], object] = lambda: None,
    ) -> Generator[None, None, StreamState]:
        """The whole story; returns what became of the watched stream."""
        streams = self.streams
        for witness in witnesses:
            witness.before()
        (stream, control) = streams.open(watched, beside)
        streams.mark("the change begins")
        yield
        then()
        streams.mark("the change is made")
        try:
            for witness in witnesses:
                streams.mark(f"witness: {witness.after()}")
        except ControlBroken:
            # A stream that was lost is a witness itself, and the others cannot testify where no new connection works.
            streams.recovered(streams.standing([stream], because=because), because=because)
            raise
        (state,) = streams.outcome([stream], because=because)
        (still,) = streams.standing([control], because=because)
        streams.report([state, still])
        if still.lost:
            raise streams.violation(still, "the stream of Linux pods beside it SURVIVED at both ends", because)
        for end in state.ends:
            self.record(f"{end.side} on {end.workload.os} saw", end.verdict)
        if state.recovered_after is not None:
            self.record("seconds to a new connection", round(state.recovered_after, 3))
        return state
