# SPDX-License-Identifier: Apache-2.0
"""Expectations about paths throughout a change, and not only before and after the change."""

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from conformance.errors import ControlBroken, Nonconformance, UsageProblem
from conformance.expect.case import Case, rows_of
from conformance.expect.check import Judged
from conformance.expect.engine.answered import as_wanted, default_kind
from conformance.expect.explain import message
from conformance.expect.subject import Subject
from conformance.model.attempt import Attempt
from conformance.model.counted import counted
from conformance.model.endpoint import Target
from conformance.model.observation import ARRIVED, Observation
from conformance.probe.asking import Asking
from conformance.settings import Timings
from conformance.settings.assumptions import DENIED_VERDICTS

AGREE = 2
"""The number of connections which show that a path was open: a single connection may have begun
before the denial."""
NAP = 0.05
"""The longest wait, in seconds, for an answer before checking whether the work is over."""

_Way = tuple[str, str]
"""A client (uid) and a protocol. Protocols count separately, since a client whose UDP attempts
connect may still fail by TCP."""


@dataclass
class _PathState:
    """A path with its answers. Each answer has the time of its request, in seconds from the
    beginning."""

    attempt: Attempt
    observations: list[tuple[float, Observation]] = field(default_factory=list)
    error: Exception | None = None

    @property
    def target(self) -> Target:
        assert self.attempt.target is not None
        return self.attempt.target


@dataclass
class Continuity(Subject):
    """The expectations of a test about paths while the test performs an operation."""

    def closed_while(
        self,
        work: Callable[[], object],
        *cases: Case,
        because: str,
    ) -> None:
        """Expect no closed case to open during ``work``, while each client reaches an open case.

        All paths are tried at the cadence of their source's system, from a moment before the work
        begins until a moment after its end. Then only the open paths are tried, until each source
        connects or ``policy_effect`` is over, so that a delay of a busy machine does not count as
        silence.

        Raise whatever the work raises. Raise Nonconformance with the second in which a path was
        first observed open. Raise ControlBroken for a path that connected only once, whose attempts
        failed otherwise than by a denial, or whose source reached no server at the end. Raise
        UsageProblem if no case is closed.
        """
        shut = self._paths(cases, want=False)
        opened = self._paths(cases, want=True)
        if not shut:
            raise UsageProblem("continuity.closed_while(...): name a case that stays closed")
        stop = threading.Event()
        with ThreadPoolExecutor(1, thread_name_prefix="asks throughout") as pool:
            asking = pool.submit(self._ask, shut, opened, stop)
            try:
                work()
            finally:
                stop.set()
        asking.result()  # raises errors of probing: a broken probe is no closed path
        alive = _alive(opened)

        def judge(state: _PathState) -> Judged:
            asked = counted(len(state.observations), "time", "times")
            return (
                self._problem(state, shut, alive, because) or f"{because}; probed {asked} meanwhile"
            )

        self.check("closed", [(state.attempt.source, state.target, state) for state in shut], judge)

    def _paths(self, cases: Sequence[Case], *, want: bool) -> list[_PathState]:
        patience = self.expect.timings
        return [
            _PathState(
                Attempt(
                    source=source,
                    target=target,
                    kind=default_kind(target, want=want),
                    give_up_after=patience.of(source.os).tcp_give_up,
                )
            )
            for (source, target), case in rows_of(cases).items()
            if case.open is want
        ]

    def _ask(
        self, shut: Sequence[_PathState], opened: Sequence[_PathState], stop: threading.Event
    ) -> None:
        """Probe until ``stop`` is set, then probe from clients without an answer for a while
        longer. Read the last answers."""
        clock = self.expect.clock
        began = clock.monotonic()
        rounds = _Rounds(self.expect.prober.asking(), self.expect.timings)
        paths = [*shut, *opened]
        last = math.inf
        longer = max(
            (self.expect.timings.of(state.attempt.source.os).policy_effect for state in opened),
            default=0.0,
        )
        try:
            while paths or rounds.under_way:
                now = clock.monotonic() - began
                rounds.begin(paths, now)
                rounds.hear()
                # checked after reading answers, since the newest may be time-outs
                if stop.is_set():
                    last = min(last, now + longer)
                    alive = _alive(opened)
                    paths = [
                        state
                        for state in opened
                        if _way(state) not in alive and now < last and state.error is None
                    ]
        finally:
            rounds.asking.cancel()

    def _problem(
        self, state: _PathState, all_closed: Sequence[_PathState], alive: set[_Way], because: str
    ) -> Exception | None:
        """Return the failure of a path that should be closed, or the error that leaves it
        undecided. Return None if the path was closed."""
        attempt = state.attempt
        all_seen = [observation for _, observation in state.observations]
        reached = [
            (at, observation)
            for at, observation in state.observations
            if observation.verdict in ARRIVED
        ]
        there = [
            observation
            for other in all_closed
            if other.target == state.target
            for _, observation in other.observations
            if observation.verdict in ARRIVED
        ]
        line = message.explanation(
            self.expect.context.claims,
            attempt,
            expected="TIMED_OUT all the while",
            because=because,
            observations=all_seen,
            seconds=max((at for at, _ in state.observations), default=0.0),
            further={"policies": self._policies},
        )
        if reached and len(there) >= AGREE:
            nodes = dict.fromkeys((state.target.backends[0].node, attempt.source.node))
            further = {
                "open": f"from {reached[0][0]:.1f} s to {reached[-1][0]:.1f} s after the start",
                "policies": self._policies,
                "do": f"read Felix' log on node {' and '.join(nodes)} for those seconds",
            }
            text = replace(line, lines={**line.lines, **further})
            return self.unless_changed(
                attempt.source,
                state.target,
                Nonconformance(text, observations=[observation for _, observation in reached]),
                want=False,
            )
        if state.error is not None:
            return state.error
        why = _doubt(state, alive)
        if not why:
            return None
        text = replace(
            line,
            so=why,
            lines={**line.lines, "do": "run the test again; then look at the source's node"},
        )
        return ControlBroken(
            message.of_control(text), control="all the while", observations=all_seen
        )

    @property
    def _policies(self) -> str:
        return "; ".join(self.expect.context.world.policies()) or "this test has no policy in force"


@dataclass
class _Rounds:
    """Attempts at paths, each source at the cadence of its system."""

    asking: Asking
    timings: Timings
    under_way: dict[int, tuple[_PathState, float]] = field(default_factory=dict)
    """The path of each attempt under way and the time (s) of the attempt's request, by ticket."""
    _due: dict[str, float] = field(default_factory=dict)

    def begin(self, paths: Sequence[_PathState], now: float) -> None:
        """Begin the attempts that are due."""
        again = [
            state
            for state in paths
            if state.error is None
            and self._due.get(state.attempt.source.uid, 0.0) <= now
            and not self.asking.waits(state.attempt.source.uid)
        ]
        for state in again:
            source = state.attempt.source
            self._due[source.uid] = now + self.timings.of(source.os).poll_every
        tickets = self.asking.begin([state.attempt for state in again]) if again else []
        self.under_way.update(
            (ticket, (state, now)) for ticket, state in zip(tickets, again, strict=True)
        )

    def hear(self) -> None:
        """Read answers until none arrives for :data:`NAP` seconds."""
        while (answer := self.asking.next(NAP)) is not None:
            state, at = self.under_way.pop(answer.ticket)
            state.error = answer.error
            if answer.observation is not None:
                state.observations.append((at, answer.observation))


def _doubt(state: _PathState, alive: set[_Way]) -> str:
    """Return the reason why the answers of a path that should be closed prove nothing. Return an
    empty string if the path was closed."""
    reached = [at for at, observation in state.observations if observation.verdict in ARRIVED]
    if reached:
        return (
            f"a single connection got through, after {reached[0]:.1f} s, which alone shows nothing"
        )
    if any(observation.verdict not in DENIED_VERDICTS for _, observation in state.observations):
        return "this is not a denial"
    if _way(state) not in alive or not state.observations:
        return "the client reached no server at the end, so a missing answer proves nothing"
    return ""


def _way(state: _PathState) -> _Way:
    return state.attempt.source.uid, state.target.protocol


def _alive(opened: Iterable[_PathState]) -> set[_Way]:
    """Return each client and protocol whose newest attempt on an open path succeeded."""
    return {
        _way(state)
        for state in opened
        if state.observations
        and as_wanted(max(state.observations, key=lambda each: each[0])[1], True)
    }
