# SPDX-License-Identifier: Apache-2.0
"""Expectations about what holds all the while that something happens, and not only before and after it."""

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from conformance.errors import ControlBroken, Nonconformance
from conformance.expect.case import Case, rows_of
from conformance.expect.check import Judged
from conformance.expect.engine.answered import ARRIVED, as_wanted, default_kind
from conformance.expect.explain import message
from conformance.expect.subject import Subject
from conformance.model.attempt import Attempt
from conformance.model.counted import counted
from conformance.model.endpoint import Target
from conformance.model.observation import DENIED_VERDICTS, Observation
from conformance.probe.asking import Asking
from conformance.settings import Timings

AGREE = 2
"""Connections at one target that show that it was open: a single one may have begun before the denial did."""
NAP = 0.05
"""s.  Longest wait for an answer before looking whether it is over."""

_Way = tuple[str, str]
"""A client (uid) and a protocol: one that gets through by UDP may still be dead by TCP."""


@dataclass
class _Asked:
    """One path, with what it answered and how many seconds after the beginning it was asked."""

    attempt: Attempt
    seen: list[tuple[float, Observation]] = field(default_factory=list)
    error: Exception | None = None

    @property
    def target(self) -> Target:
        assert self.attempt.target is not None
        return self.attempt.target


@dataclass
class Throughout(Subject):
    """What one test expects of paths while it does something."""

    def closed_while(
        self,
        work: Callable[[], object],
        *cases: Case,
        because: str,
    ) -> None:
        """No closed case opens while ``work`` is done; each of their clients gets through an open one meanwhile.

        All are asked at the cadence of their source's system, from a moment before the work begins to one after it has
        ended; after that the open ones alone, until each source gets through or ``policy_effect`` is over: what a busy
        machine was late with is no silence.  Raises what the work raises, Nonconformance with the second in which a
        path was first seen open, and ControlBroken for a path that was open once, that ended otherwise than denials do,
        or whose source got nowhere at the end.
        """
        shut = self._paths(cases, want=False)
        opened = self._paths(cases, want=True)
        stop = threading.Event()
        with ThreadPoolExecutor(1, thread_name_prefix="asks throughout") as pool:
            asking = pool.submit(self._ask, shut, opened, stop)
            try:
                work()
            finally:
                stop.set()
        asking.result()  # what breaks it is no silence of the paths
        alive = _alive(opened)

        def judge(one: _Asked) -> Judged:
            asked = counted(len(one.seen), "time", "times")
            return self._problem(one, shut, alive, because) or f"{because}; asked {asked} meanwhile"

        self.check("closed", [(one.attempt.source, one.target, one) for one in shut], judge)

    def _paths(self, cases: Sequence[Case], *, want: bool) -> list[_Asked]:
        patience = self.expect.timings
        return [
            _Asked(
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

    def _ask(self, shut: Sequence[_Asked], opened: Sequence[_Asked], stop: threading.Event) -> None:
        """Ask until it is over, and whoever got nowhere then a while longer, and hear what is under way at the end."""
        clock = self.expect.clock
        began = clock.monotonic()
        rounds = _Rounds(self.expect.prober.asking(), self.expect.timings)
        paths = [*shut, *opened]
        last = math.inf
        longer = max(
            (self.expect.timings.of(one.attempt.source.os).policy_effect for one in opened),
            default=0.0,
        )
        try:
            while paths or rounds.under_way:
                now = clock.monotonic() - began
                rounds.begin(paths, now)
                rounds.hear()
                if stop.is_set():  # only now, since what has just been heard may be a silence
                    last = min(last, now + longer)
                    alive = _alive(opened)
                    paths = [
                        one
                        for one in opened
                        if _way(one) not in alive and now < last and one.error is None
                    ]
        finally:
            rounds.asking.cancel()

    def _problem(
        self, one: _Asked, all_closed: Sequence[_Asked], alive: set[_Way], because: str
    ) -> Exception | None:
        """What is wrong with a path that was to be closed."""
        attempt = one.attempt
        all_seen = [seen for _, seen in one.seen]
        reached = [(at, seen) for at, seen in one.seen if seen.verdict in ARRIVED]
        there = [
            seen
            for other in all_closed
            if other.target == one.target
            for _, seen in other.seen
            if seen.verdict in ARRIVED
        ]
        line = message.explanation(
            self.expect.context.claims,
            attempt,
            expected="TIMED_OUT all the while",
            because=because,
            seen=all_seen,
            seconds=max((at for at, _ in one.seen), default=0.0),
            further={"policies": self._policies},
        )
        if reached and len(there) >= AGREE:
            nodes = dict.fromkeys((one.target.backends[0].node, attempt.source.node))
            further = {
                "open": f"from {reached[0][0]:.1f} s to {reached[-1][0]:.1f} s after the beginning",
                "policies": self._policies,
                "do": f"read Felix' log on node {' and '.join(nodes)} for those seconds",
            }
            text = replace(line, lines={**line.lines, **further})
            return self.unless_changed(
                attempt.source,
                one.target,
                Nonconformance(text, seen=[seen for _, seen in reached]),
                want=False,
            )
        if one.error is not None:
            return one.error
        why = _doubt(one, alive)
        if not why:
            return None
        text = replace(
            line, so=why, lines={**line.lines, "do": "run it again; then look at the source's node"}
        )
        return ControlBroken(message.of_control(text), control="all the while", seen=all_seen)

    @property
    def _policies(self) -> str:
        return "; ".join(self.expect.context.world.policies()) or "none of this test"


@dataclass
class _Rounds:
    """Attempts at paths, each source at the cadence of its system."""

    asking: Asking
    timings: Timings
    under_way: dict[int, tuple[_Asked, float]] = field(default_factory=dict)
    """Ticket to the path and the second in which it was asked."""
    _due: dict[str, float] = field(default_factory=dict)

    def begin(self, paths: Sequence[_Asked], now: float) -> None:
        """Ask those that are due."""
        again = [
            one
            for one in paths
            if one.error is None
            and self._due.get(one.attempt.source.uid, 0.0) <= now
            and not self.asking.waits(one.attempt.source.uid)
        ]
        for one in again:
            source = one.attempt.source
            self._due[source.uid] = now + self.timings.of(source.os).poll_every
        tickets = self.asking.begin([one.attempt for one in again]) if again else []
        self.under_way.update(
            (ticket, (one, now)) for ticket, one in zip(tickets, again, strict=True)
        )

    def hear(self) -> None:
        """Take all answers that have come, and wait a moment for one."""
        while (answer := self.asking.next(NAP)) is not None:
            one, at = self.under_way.pop(answer.ticket)
            one.error = answer.error
            if answer.observation is not None:
                one.seen.append((at, answer.observation))


def _doubt(one: _Asked, alive: set[_Way]) -> str:
    """Return why the answers of a path that was to be closed show nothing; empty: it was closed."""
    reached = [at for at, seen in one.seen if seen.verdict in ARRIVED]
    if reached:
        return (
            f"a single connection got through, after {reached[0]:.1f} s, which alone shows nothing"
        )
    if any(seen.verdict not in DENIED_VERDICTS for _, seen in one.seen):
        return "which is no denial"
    if _way(one) not in alive or not one.seen:
        return "and its source got through to nobody at the end, so that its silence proves nothing"
    return ""


def _way(one: _Asked) -> _Way:
    return one.attempt.source.uid, one.target.protocol


def _alive(opened: Iterable[_Asked]) -> set[_Way]:
    """Return those whose attempt that left last got through."""
    return {
        _way(one)
        for one in opened
        if one.seen and as_wanted(max(one.seen, key=lambda each: each[0])[1], True)
    }
