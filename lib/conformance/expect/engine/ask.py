# SPDX-License-Identifier: Apache-2.0
"""Makes attempts until every path is decided. Attempts begin at a cadence; results are read as they
arrive.

This module decides when to make an attempt; :mod:`conformance.expect.engine.decide` interprets the
answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from conformance.errors import ProbeBroken
from conformance.expect.engine.answered import as_wanted
from conformance.expect.engine.decide import (
    Broken,
    BrokenControl,
    Held,
    NotYet,
    Standing,
    Wrong,
    conclude,
    decide,
)
from conformance.expect.engine.path import Path, Try, Why
from conformance.expect.engine.sources import SOON, PathState, Source, stand_beside
from conformance.probe.asking import Answered, Asking
from conformance.probe.clocks import unix
from conformance.probe.machine import Machine
from conformance.timing import AT_LEAST, Clock

TICK = 0.001
"""An attempt that is due within this many seconds is made now."""
LOOK = 0.1
"""The interval, in seconds, between two checks whether delayed attempts have been sent, or missing
answers have arrived."""
WATCH_EVERY = 1.0
"""The minimum of seconds between a source's attempts while every remaining denial is decided and
only watched. A longer cadence of the source stays. A denial that ends does not come back, so the
next attempt shows its end."""
PATIENT = 1.0
"""The longest wait, in seconds, for an answer before the loop reads the clock again."""
LOOK_AFTER = 10.0
"""The interval, in seconds, between two checks whether the ends of wrong paths are lost. The checks
are rare, since a node's death is known after 40 s at the earliest (kube-controller-manager's
--node-monitor-grace-period), and each check takes some requests. The first check is made within the
time limit: a cause such as a foreign policy may be gone later."""
LATE = (Why.OPEN, Why.CLOSED, Why.WAVERS, Why.CONTROL, Why.SILENT)
"""The faults that may disappear with more time if the machine was late: a path or its controls are
not yet as expected."""


def ask(
    asking: Asking,
    paths: Sequence[Path],
    *,
    cadence: Mapping[str, float],
    settle: float,
    clock: Clock,
    about_denial: bool = False,
    agreeing: Mapping[str, float] | None = None,
    machine: Machine | None = None,
    lost: Callable[[Sequence[Path]], Sequence[Path]] = lambda paths: (),
) -> list[Standing]:
    """Return the standing of each path once all paths are decided, or no further attempt could
    decide them. Attempts under way are cancelled at the end.

    ``cadence``: the seconds between a source's attempts, by the source's uid. ``settle``: the
    seconds within which a path that was open before must be open again, once every closed path is
    decided. ``about_denial``: the expectation is about denials although no path should be closed,
    so that an open path that wavers is a broken control.

    ``agreeing``: replaces ``cadence`` while all attempts of a source are as expected and no path
    should be closed. It is also the first pause after a change (at most ``SOON``); this pause
    doubles up to ``cadence`` until the change has taken effect.

    ``machine``: receives every delay, and decides whether time limits are extended. ``lost``:
    returns the paths whose ends have changed, so that waiting for them is useless; called at
    intervals of ``LOOK_AFTER`` while paths stay wrong.
    """
    round_ = _Round(
        asking,
        paths,
        cadence,
        settle,
        clock,
        about_denial=about_denial,
        agreeing=agreeing or {},
        machine=machine or Machine(),
        lost=lost,
    )
    try:
        return round_.run()
    finally:
        asking.cancel()


class _Round:
    """An expectation's attempts."""

    def __init__(
        self,
        asking: Asking,
        paths: Sequence[Path],
        cadence: Mapping[str, float],
        settle: float,
        clock: Clock,
        *,
        about_denial: bool,
        agreeing: Mapping[str, float],
        machine: Machine,
        lost: Callable[[Sequence[Path]], Sequence[Path]],
    ) -> None:
        self._asking = asking
        self._settle = settle
        self._clock = clock
        self._machine = machine
        self._began = clock.monotonic()
        self._within = max((path.rule.within for path in paths), default=0.0)
        self._earliest = min((path.rule.within for path in paths), default=0.0)
        """The shortest time limit, in seconds. No time limit ends earlier, since time limits are
        only extended."""
        self._lost = lost
        self._looks = min(LOOK_AFTER, self._earliest / 2)
        self._looked = 0.0
        """``_looks`` is the time of the next call of ``lost``, which finds paths with lost ends;
        ``_looked`` is the end of its last call. Both are in seconds."""
        any_closed = not all(path.want for path in paths)
        self._about_denial = about_denial or any_closed
        self._sources = {
            uid: Source(
                uid,
                cadence[uid],
                agree_every=None if any_closed else agreeing.get(uid),
                next_pause=min(SOON, agreeing.get(uid, SOON)) if self._about_denial else None,
            )
            for uid in dict.fromkeys(path.attempt.source.uid for path in paths)
        }
        self._all = [PathState(path, self._sources[path.attempt.source.uid]) for path in paths]
        for state in self._all:
            state.source.paths.append(state)
        stand_beside(self._all)
        self._left = dict.fromkeys(self._all)
        self._closed_left = dict.fromkeys(state for state in self._all if not state.path.want)
        self._changed = dict(self._left)
        self._under_way: dict[int, tuple[PathState, Try]] = {}
        """The attempts under way, keyed by ticket."""
        self._broke = False
        """True if an attempt broke since the last check for broken controls."""
        self._given: float | None = None
        """Seconds that were added to all time limits because the machine was late; None: not yet
        requested."""
        self._denials_done: float | None = None if any_closed else 0.0
        """The time when every closed path was decided, in seconds; None: not all are decided
        yet."""

    @property
    def _now(self) -> float:
        return self._clock.monotonic() - self._began

    def run(self) -> list[Standing]:
        due = self._clock.monotonic()
        while True:
            now = self._clock.monotonic()
            self._machine.record_lateness(now - due, now)
            self._judge()
            if self._now >= self._looks:
                self._give_up_lost()
            if not self._left:
                return [state.standing for state in self._all]
            self._begin_due()
            wait = self._wait()
            due = self._clock.monotonic() + wait
            self._hear(wait)

    # --- asking ----------------------------------------------------------------------------------------------------

    def _begin_due(self) -> None:
        now = self._now
        due = [source for source in self._sources.values() if self._plan_if_due(source, now)]
        if not due:
            return
        beside = self._wanted_beside()
        resting = (
            {state for source in due for state in source.resting}
            if beside == float("inf")
            else set()
        )
        states = [
            state
            for source in due
            for state in source.paths
            if state not in resting and self._wants_more(state, beside)
        ]
        if states:
            for state in states:
                state.source.sooner = None
            tickets = self._asking.begin([state.path.next_attempt for state in states])
            tried = zip(tickets, states, strict=True)
            self._under_way.update(
                {ticket: (state, state.path.ask(now)) for ticket, state in tried}
            )

    def _plan_if_due(self, source: Source, now: float) -> bool:
        """Return whether a source is due now. If it is due, plan when it is due again."""
        if self._next_due(source) > now + TICK:
            return False
        # An agent that hangs, or is behind with its attempts, gets no further attempts meanwhile.
        if self._asking.waits(source.uid) or source.is_behind(now):
            source.held_until = now + min(LOOK, source.cadence)
            return False
        every = max(source.cadence, WATCH_EVERY) if self._only_watches else source.cadence
        source.due = now + every
        source.late /= 2
        source.pause = source.cadence if source.next_pause is None else source.next_pause
        source.next_pause = 2 * source.pause
        return True

    @property
    def _only_watches(self) -> bool:
        """Return whether every remaining closed path is decided and only watched."""
        standings = [state.standing for state in self._closed_left]
        return bool(standings) and all(
            isinstance(standing, NotYet) and standing.watching for standing in standings
        )

    def _next_due(self, source: Source) -> float:
        """Return the time (s) when the source is due by its cadence, or an earlier time.

        The source is due earlier if an attempt would complete a row, if all paths of the source
        agree, or while a change has not taken effect.
        """
        if source.sooner is None:
            of_all = (
                source.completes_row(),
                source.agrees_again(),
                self._sees_change(source),
            )
            source.sooner = min(of_all)
        return max(min(source.due, source.sooner), source.held_until)

    def _sees_change(self, source: Source) -> float:
        """Return the time (s) when the source is due because a change has not taken effect yet.
        Return ``inf`` if the change has taken effect.

        The change has no effect as long as a path that should close still connects, or a path that
        should open again has not connected yet. Most changes take effect long before the cadence
        has passed.
        """
        if (
            source.pause is None
            or source.pause >= source.cadence
            or (
                not any(
                    self._is_as_before(state.path)
                    for state in source.paths
                    if state.is_left and state.path.tries
                )
            )
        ):
            return float("inf")
        return source.due - source.cadence + source.pause

    def _is_as_before(self, path: Path) -> bool:
        """Return whether the newest attempt of a changing path shows the state before the change,
        as far as is known."""
        newest = path.tries[-1].observation
        if path.want:
            return not self._closed_left and not (newest is not None and as_wanted(newest, True))
        return newest is not None and as_wanted(newest, True)

    def _wants_more(self, state: PathState, beside: float) -> bool:
        """Return whether another attempt could help to decide this path or a closed path.

        Open paths are tried as long as closed paths are undecided; open paths that agree are tried
        in turn. A control must connect at the same time as the closed paths. Any other open path
        must be open after the change took effect, and not only before.

        ``beside``: an open path whose last attempt began before this moment is tried again.
        """
        if state.path.error is not None or (state.path.later and beside == float("inf")):
            return False
        if state.path.want and state.last_asked < beside:
            return True
        if not state.is_left or not self._may_begin(state):
            return False
        if state.path.want:
            return not isinstance(state.standing, Held)
        return not state.may_be_complete

    def _wanted_beside(self) -> float:
        """Return the moment (s) after which open paths must be tried again as controls of closed
        paths."""
        never = -float("inf")
        always = float("inf")
        if any(self._wants_more(state, never) for state in self._closed_left):
            return always
        return max((state.last_asked for state in self._closed_left), default=never)

    def _may_begin(self, state: PathState) -> bool:
        """Return whether an attempt that begins now can count: it begins within the time limit, or
        belongs to a row that began within the time limit."""
        return (
            self._now <= self._deadline(state.path)
            or self._undecided(state)
            or len(state.path.tries) < AT_LEAST
        )

    def _deadline(self, path: Path) -> float:
        """Return the time (s since the start) by which the first of the agreeing attempts that
        decide a path must begin."""
        if path.want and self._denials_done is not None:
            return max(
                path.rule.within, self._denials_done + (self._settle if self._denials_done else 0.0)
            )
        return path.rule.within

    def _undecided(self, state: PathState) -> bool:
        """Return whether a row that began within the time limit may still grow, or whether an
        unanswered attempt may begin such a row."""
        deadline = self._deadline(state.path)
        standing = state.standing
        if isinstance(standing, NotYet) and standing.row and standing.row[0].at <= deadline:
            return True
        return any(
            attempt.observation is None and attempt.asked <= deadline
            for attempt in state.path.recent
        )

    # --- hearing ---------------------------------------------------------------------------------------------------

    def _wait(self) -> float:
        """Return the seconds until an action is due, if no answer arrives before."""
        now = self._now
        moments = [self._next_due(source) for source in self._sources.values()]
        if now < self._within:
            moments.append(self._within + TICK)
        return min(PATIENT, max(0.0, min(moments) - now))

    def _hear(self, within: float) -> None:
        """Read the next answer, and all other answers that have arrived."""
        answered = self._asking.next(within)
        while answered is not None:
            self._take(answered)
            answered = self._asking.next(0)

    def _take(self, answered: Answered) -> None:
        state, attempt = self._under_way.pop(answered.ticket)
        path = state.path
        observation = answered.observation
        if observation is None:
            self._broke = True
            path.error = (
                path.error
                or answered.error
                or ProbeBroken(f"{path.attempt.label}: nothing was observed")
            )
        else:
            at = attempt.asked
            error = float("inf")
            if observation.began_at is not None and observation.began_at_error is not None:
                at = observation.began_at - unix(self._began)
                error = observation.began_at_error
            if attempt is path.tries[0] and at > state.source.cadence:
                # The agent had to be started before this attempt, so the delay is not the network's
                # fault.
                path.rule = replace(path.rule, within=path.rule.within + at)
            else:
                took = self._now - attempt.asked - observation.seconds
                state.source.late = max(took, state.source.late)
            path.answer(attempt, observation, at=at, error=error, came=self._now)
            self._machine.record_lateness(
                self._now - max(at + observation.seconds + error, self._looked),
                self._clock.monotonic(),
            )
        self._changed[state] = None
        self._changed.update(
            (closed, None) for kind in state.beside for closed in kind if closed.alone
        )

    # --- deciding --------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        """Decide paths with new answers again. Once the time is over, decide all paths again."""
        changed = self._changed
        self._changed = {}
        for state in changed:
            state.source.sooner = None
            if state.is_left:
                self._look_again(state)
        self._drop_without_control()
        ended = self._denials_done is None and not self._closed_left
        if ended:
            self._denials_done = self._now
        self._end_decided(list(self._left if ended or self._now > self._earliest else changed))

    def _look_again(self, state: PathState) -> None:
        state.standing = decide(state.path)
        if isinstance(state.standing, NotYet):
            state.alone = state.standing.alone
        elif not state.path.want or isinstance(state.standing, Broken):
            self._end(state)

    def _end_decided(self, states: Sequence[PathState]) -> None:
        """End the attempts on paths that are as expected, or that no attempt could decide any more.
        Do nothing if all paths get more time."""
        for state in states:
            if not state.is_left:
                continue
            if isinstance(state.standing, Held):
                if self._denials_done is not None:
                    self._end(state)
            elif self._is_over(state):
                standing = conclude(state.path, about_denial=self._about_denial)
                if (
                    isinstance(standing, Wrong | BrokenControl)
                    and standing.why in LATE
                    and self._gives_more()
                ):
                    return
                state.standing = standing
                self._end(state)

    def _gives_more(self) -> bool:
        """Extend the time limit of all undecided paths once, if the machine was late. Return
        whether it was extended."""
        if self._given is None:
            self._given = self._machine.more(self._within, self._began)
            for state in self._left if self._given else ():
                rule = state.path.rule
                state.path.rule = replace(rule, within=rule.within + self._given)
                state.path.given = self._given
            self._within += self._given
            return self._given > 0
        return False

    def _give_up_lost(self) -> None:
        """End the attempts on wrong paths whose ends are lost. The time that this check takes does
        not count as a delay of the machine."""
        wrong = {state.path: state for state in self._left if not isinstance(state.standing, Held)}
        for path in self._lost(list(wrong)) if wrong else ():
            if len(path.tries) >= AT_LEAST:
                wrong[path].standing = conclude(path, about_denial=self._about_denial)
                self._end(wrong[path])
        self._looked = self._now
        self._looks = self._looked + LOOK_AFTER

    def _end(self, state: PathState) -> None:
        """End a path's attempts; its standing stays as it is."""
        state.is_left = False
        state.alone = False
        state.source.sooner = None
        del self._left[state]
        self._closed_left.pop(state, None)

    def _drop_without_control(self) -> None:
        """End the attempts on closed paths that lost all controls of one kind: such paths cannot be
        decided."""
        if not self._broke:
            return
        self._broke = False
        for state in list(self._closed_left):
            if any(
                all(control.error is not None for control in kind) for kind in state.path.controls
            ):
                state.standing = BrokenControl(Why.CONTROL)
                self._end(state)

    def _is_over(self, state: PathState) -> bool:
        """Return whether at least two attempts were answered and no further attempt could decide
        the path."""
        if state.path.want and self._denials_done is None:
            return False  # the path is still a control
        answered = sum(
            attempt.observation is not None for attempt in state.path.tries[: 2 * AT_LEAST]
        )
        return (
            answered >= AT_LEAST
            and not self._may_begin(state)
            and self._now > self._deadline(state.path)
        )
