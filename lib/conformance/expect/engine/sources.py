# SPDX-License-Identifier: Apache-2.0
"""The sources of an expectation's paths. To ask a source means to have its agent make attempts;
this module decides when each source is asked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from conformance.expect.engine.decide import (
    Held,
    NotYet,
    Standing,
    completes_at,
)
from conformance.expect.engine.path import Path

MARGIN = 0.1
"""The attempt that may complete a row begins this many seconds later, but at most half of the
cadence later. Agents begin attempts some milliseconds after the request, and not always equally
fast."""
SOON = 0.1
"""The longest first pause, in seconds, after a change, even if older attempts still wait. Most
changes take effect in milliseconds, but an attempt that left before waits one or three seconds
until its SYN is sent again."""
BEHIND = 1.0
"""A source with more than :data:`FEW` unanswered attempts makes no new attempts, for at most this
many seconds. If attempts begin faster than pods answer, they pile up until each answer is late and
healthy paths look closed. An attempt without an answer after this time counts as lost."""
FEW = 3
"""The number of attempts of a source that may be unanswered: some packets are always under way, and
a lost packet is no sign of load."""


@dataclass(eq=False)
class Source:
    """A source, with all its paths; times in seconds since the round began."""

    uid: str
    cadence: float
    agree_every: float | None
    """The pause, in seconds, between attempts while all of them agree and the agent answers in
    time. None: the pause is the cadence, since a path should be closed."""
    next_pause: float | None
    """The next pause, in seconds, while a change of policy has not taken effect for the source yet;
    None: there is no change."""
    paths: list[PathState] = field(default_factory=list)
    due: float = 0.0
    pause: float | None = None
    """The pause, in seconds, after the source's newest attempts, while a change of policy has not
    taken effect for it yet; at most a cadence."""
    late: float = 0.0
    """Seconds by which the answers of the source's agent are late. The value is halved in each
    round, but is at least the delay of that round's slowest answer."""
    held_until: float = 0.0
    """The time before which the source is not asked again, since its agent hangs or is behind."""
    sooner: float | None = None
    """The time when the source is due, if it is due earlier than by its cadence. None: the time has
    to be computed again."""

    @property
    def resting(self) -> list[PathState]:
        """Return the agreeing open paths that are not tried this time; each time, other paths are
        left out.

        A few of a source's paths are enough to show that the source is alive. Paths that other
        agents' closed paths need as controls are never left out, since agents do not probe at the
        same moments, and a busy machine probes less often.
        """
        agreed = [
            state
            for state in self.paths
            if state.path.want and isinstance(state.standing, Held) and not state.for_others
        ]
        return sorted(agreed, key=lambda state: state.last_asked)[(len(agreed) + 1) // 2 :]

    def completes_row(self) -> float:
        """Return the time (s) at which an attempt would complete a row, if no attempt begins
        earlier. Return ``inf`` if no attempt would complete a row."""
        margin = min(MARGIN, self.cadence / 2)
        first = float("inf")
        for state in self.paths:
            if state.is_left and not state.path.want and state.path.recent:
                complete = state.completes_at
                if state.path.recent[-1].asked < complete:
                    first = min(first, complete + margin)
        return first

    def agrees_again(self) -> float:
        """Return the time (s) at which a source with only expected answers is asked again. Return
        ``inf`` if an answer is not as expected. A source that answers late is asked less often."""
        left = [state for state in self.paths if state.is_left]
        if self.agree_every is None or not left or not all(state.agrees for state in left):
            return float("inf")
        return self.due - self.cadence + min(self.cadence, max(self.agree_every, 2 * self.late))

    def is_behind(self, now: float) -> bool:
        """Return whether too many attempts are unanswered at servers that have answered the source
        before.

        Attempts at closed paths do not count: they are expected to get no answer. Attempts from
        before a path opened do not count either; they wait for their system to send its SYN again.
        """
        since = now - BEHIND
        owed = 0
        for state in self.paths:
            owed += sum(
                attempt.asked > since and state.path.owes(attempt) for attempt in state.path.recent
            )
        return owed > FEW


@dataclass(eq=False)
class PathState:
    """A path, and its present state."""

    path: Path
    source: Source
    standing: Standing = field(default_factory=lambda: NotYet((), None))
    is_left: bool = True
    """The standing may still change."""
    alone: bool = False
    """The path should be closed, and for one of its time-outs no control has connected at the same
    time yet."""
    beside: list[list[PathState]] = field(default_factory=list)
    """The closed paths for which this path may be a control: a list for each kind of control. Paths
    share these lists."""
    for_others: bool = False
    """``beside`` has closed paths of other sources."""

    @property
    def last_asked(self) -> float:
        return self.path.tries[-1].asked if self.path.tries else -float("inf")

    @property
    def completes_at(self) -> float:
        return completes_at(self.path, self.standing)

    @property
    def agrees(self) -> bool:
        """Return whether the path's newest attempt was as expected, so that only further attempts
        with this result are missing for a decision."""
        standing = self.standing
        return (
            isinstance(standing, NotYet)
            and bool(standing.row)
            and self.path.tries[-1].observation is not None
        )

    @property
    def may_be_complete(self) -> bool:
        """Return whether an unanswered attempt may be the last of the row that is under way."""
        newest = self.path.recent[-1] if self.path.recent else None
        return (
            newest is not None and newest.observation is None and newest.asked >= self.completes_at
        )


def stand_beside(states: Sequence[PathState]) -> None:
    """Link each open path to the closed paths for which it may be a control."""
    by_path = {state.path: state for state in states}
    kinds: dict[int, list[PathState]] = {}
    for closed in states:
        for kind in closed.path.controls if not closed.path.want else ():
            there = [by_path[control] for control in kind if control in by_path]
            if id(kind) not in kinds:
                kinds[id(kind)] = []
                for state in there:
                    state.beside.append(kinds[id(kind)])
            kinds[id(kind)].append(closed)
            for state in there:
                state.for_others = state.for_others or state.source is not closed.source
