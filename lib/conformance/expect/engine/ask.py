# SPDX-License-Identifier: Apache-2.0
"""Asking until everything is decided: attempts begin at a cadence while older ones wait, and are heard as they end.

Knows when to ask; what the answers mean is :mod:`conformance.expect.engine.decide`'s to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from conformance.errors import ProbeBroken
from conformance.expect.engine.answered import as_wanted
from conformance.expect.engine.decide import (
    Broken,
    BrokenControl,
    Held,
    NotYet,
    Path,
    Standing,
    Try,
    Why,
    Wrong,
    completes_at,
    conclude,
    decide,
)
from conformance.probe.asking import Answered, Asking
from conformance.probe.clocks import unix
from conformance.probe.machine import Machine
from conformance.timing import AT_LEAST, Clock

MARGIN = 0.1
"""s.  The attempt that may complete a row is begun so much later than it has to be: agents begin attempts some
milliseconds after they are told to, one time more than another.  At most half of the cadence."""
TICK = 0.001
"""s.  What is due so soon is due."""
LOOK = 0.1
"""s.  Between two looks whether attempts that did not leave have left, or answers that are owed have come."""
BEHIND = 1.0
"""s.  So long a source is not asked again while more than a few answers are owed to it: attempts that are begun faster
than pods answer pile up until each answer comes too late, and healthy paths look closed.  What is not answered by then
is taken for lost."""
FEW = 3
"""Answers that may be owed to a source: some packets are always under way, and a single lost one is no load."""
SOON = 0.1
"""s.  The first pause after a change is at most this long, whatever older attempts wait for: most changes take effect
in milliseconds, and an attempt that left before waits for its SYN to be sent again, a second or three."""
WATCH_EVERY = 1.0
"""s.  Between a source's attempts, or its cadence where that is longer, while every denial that is left is decided and
watched: what wears off stays open, and is seen by the next attempt."""
PATIENT = 1.0
"""s.  Longest wait for an answer before looking at the clock again."""
LOOK_AFTER = 10.0
"""s.  Between two looks whether ends of what is still wrong are lost: a node's death is known after 40 s at the soonest
(kube-controller-manager's --node-monitor-grace-period), and a look takes some requests.  The first is within the
budget: what is looked at then may be gone when it is over, as a policy of somebody else."""
LATE = (Why.OPEN, Why.CLOSED, Why.WAVERS, Why.CONTROL, Why.SILENT)
"""What more time may mend where the machine ran late: a path that is not yet as it is to be, or whose controls are not.
"""


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
    """How each path ends, once all are decided or no attempt that may still be made could decide them.

    Cancels what is under way, however it ends.

    ``cadence``: source's uid to the seconds between its attempts.  ``settle``: seconds that an open path which was
    open before has to be so again, once every closed path is decided.  ``about_denial``: what is said is about denials
    although no path is to be closed, so that an open one that wavers is a broken control.  ``agreeing``: the same as
    ``cadence`` while all attempts of a source are as they are to be, where no path is to be closed.  It is also the
    first pause after a change, but at most ``SOON``, and doubles up to ``cadence`` while the change is not seen to have
    taken effect.
    ``machine``: is told what was late, and says whether budgets are given once more for it.  ``lost``: those of some
    paths whose ends are not what they were, so that nothing is waited for; asked now and then while paths stay wrong.
    """
    one = _Round(
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
        return one.run()
    finally:
        asking.cancel()


@dataclass(eq=False)
class _Source:
    """One source, with all its paths; times in seconds since the round began."""

    uid: str
    cadence: float
    agree_every: float | None
    """Between attempts while all of them agree; None: the cadence, since a path is to be closed."""
    next_pause: float | None
    """Next pause while a change of policy is not seen to have taken effect for it; None: there is none to see."""
    paths: list[_Asked] = field(default_factory=list)
    due: float = 0.0
    pause: float | None = None
    """After its newest attempts, while a change is not seen; at most a cadence."""
    held_until: float = 0.0
    """Its attempts did not leave: when it is looked at again."""
    sooner: float | None = None
    """When it is due before its cadence says so; None: not known since something changed."""

    @property
    def resting(self) -> list[_Asked]:
        """Open paths that agree and are passed over this time, since as many others were not asked the last time: some
        of a source show as well as all of them that it is alive.  Not those that others' closed paths need beside them:
        other agents are not asked at the same moments, and a busy machine asks each less often."""
        agreed = [
            one
            for one in self.paths
            if one.path.want and isinstance(one.standing, Held) and not one.for_others
        ]
        return sorted(agreed, key=lambda one: one.last_asked)[(len(agreed) + 1) // 2 :]


@dataclass(eq=False)
class _Asked:
    """One path, and how it stands."""

    path: Path
    source: _Source
    standing: Standing = field(default_factory=lambda: NotYet((), None))
    is_left: bool = True
    """Whether it may still become something else."""
    alone: bool = False
    """It is to be closed, and has a time-out that no control was seen beside yet."""
    beside: list[list[_Asked]] = field(default_factory=list)
    """Closed paths beside which it may stand, by the kinds of controls that it belongs to; closed paths share kinds."""
    for_others: bool = False
    """Whether closed paths of other sources are among them."""

    @property
    def last_asked(self) -> float:
        return self.path.tries[-1].asked if self.path.tries else -float("inf")

    @property
    def completes_at(self) -> float:
        return completes_at(self.path, self.standing)

    @property
    def agrees(self) -> bool:
        """Whether its newest attempt was answered, as it is to be, and more of the kind decide it."""
        standing = self.standing
        return (
            isinstance(standing, NotYet)
            and bool(standing.row)
            and self.path.tries[-1].seen is not None
        )

    @property
    def may_be_complete(self) -> bool:
        """Whether an unanswered attempt may be the last one of the row that is under way."""
        newest = self.path.recent[-1] if self.path.recent else None
        return newest is not None and newest.seen is None and newest.asked >= self.completes_at


def _stand_beside(several: Sequence[_Asked]) -> None:
    """Tell open paths beside which closed ones they may stand."""
    by_path = {one.path: one for one in several}
    kinds: dict[int, list[_Asked]] = {}
    for closed in several:
        for kind in closed.path.controls if not closed.path.want else ():
            there = [by_path[control] for control in kind if control in by_path]
            if id(kind) not in kinds:
                kinds[id(kind)] = []
                for one in there:
                    one.beside.append(kinds[id(kind)])
            kinds[id(kind)].append(closed)
            for one in there:
                one.for_others = one.for_others or one.source is not closed.source


class _Round:
    """One expectation's attempts."""

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
        """s.  Before it no time is over: budgets only grow."""
        self._lost, self._looks, self._looked = lost, min(LOOK_AFTER, self._earliest / 2), 0.0
        """s.  When it is looked next whether ends are lost, and when the last such look ended."""
        any_closed = not all(path.want for path in paths)
        self._about_denial = about_denial or any_closed
        self._sources = {
            uid: _Source(
                uid,
                cadence[uid],
                agree_every=None if any_closed else agreeing.get(uid),
                next_pause=min(SOON, agreeing.get(uid, SOON)) if self._about_denial else None,
            )
            for uid in dict.fromkeys(path.attempt.source.uid for path in paths)
        }
        self._all = [_Asked(path, self._sources[path.attempt.source.uid]) for path in paths]
        for one in self._all:
            one.source.paths.append(one)
        _stand_beside(self._all)
        self._left = dict.fromkeys(self._all)
        self._closed_left = dict.fromkeys(one for one in self._all if not one.path.want)
        self._changed = dict(self._left)
        self._under_way: dict[int, tuple[_Asked, Try]] = {}
        """By ticket."""
        self._broke = False
        """Whether an attempt broke since that was last looked at."""
        self._given: float | None = None
        """s.  Added to all budgets since the machine ran late; None: not yet asked."""
        self._denials_done: float | None = None if any_closed else 0.0
        """s.  When every closed path was decided; None: not yet."""

    @property
    def _now(self) -> float:
        return self._clock.monotonic() - self._began

    def run(self) -> list[Standing]:
        due = self._clock.monotonic()
        while True:
            now = self._clock.monotonic()
            self._machine.late(now - due, now)
            self._judge()
            if self._now >= self._looks:
                self._give_up_lost()
            if not self._left:
                return [one.standing for one in self._all]
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
            {one for source in due for one in source.resting} if beside == float("inf") else set()
        )
        several = [
            one
            for source in due
            for one in source.paths
            if one not in resting and self._wants_more(one, beside)
        ]
        if several:
            for one in several:
                one.source.sooner = None
            tickets = self._asking.begin([one.path.next_attempt for one in several])
            tried = zip(tickets, several, strict=True)
            self._under_way.update({ticket: (one, one.path.ask(now)) for ticket, one in tried})

    def _plan_if_due(self, source: _Source, now: float) -> bool:
        """Whether a source is to be asked now; if so, plan when it is due again."""
        if self._next_due(source) > now + TICK:
            return False
        # An agent that hangs is seen to hang, and a busy one to be behind: neither is asked for
        # more and more.
        if self._asking.waits(source.uid) or self._is_behind(source):
            source.held_until = now + min(LOOK, source.cadence)
            return False
        every = max(source.cadence, WATCH_EVERY) if self._only_watches else source.cadence
        source.due = now + every
        source.pause = source.cadence if source.next_pause is None else source.next_pause
        source.next_pause = 2 * source.pause
        return True

    @property
    def _only_watches(self) -> bool:
        """Whether every closed path that is left is decided, and watched."""
        standings = [one.standing for one in self._closed_left]
        return bool(standings) and all(
            isinstance(standing, NotYet) and standing.watching for standing in standings
        )

    def _is_behind(self, source: _Source) -> bool:
        """Whether more than a few attempts of the source at servers that have answered it are unanswered.

        Attempts at closed paths do not count: that nothing answers them is what is to be seen.  Nor do those from
        before a path opened, which wait for their system to send its SYN again.
        """
        since = self._now - BEHIND
        owed = 0
        for one in source.paths:
            owed += sum(
                attempt.asked > since and one.path.owes(attempt) for attempt in one.path.recent
            )
        return owed > FEW

    def _next_due(self, source: _Source) -> float:
        """By the source's cadence, or sooner where an attempt would complete a row, all that it was asked agrees, or a
        change is yet to take effect."""
        if source.sooner is None:
            of_all = (
                self._completes_row(source),
                self._goes_on_agreeing(source),
                self._sees_change(source),
            )
            source.sooner = min(of_all)
        return max(min(source.due, source.sooner), source.held_until)

    @staticmethod
    def _completes_row(source: _Source) -> float:
        """s.  When an attempt of the source would complete a row, if none is begun by then; ``inf``: never."""
        margin = min(MARGIN, source.cadence / 2)
        first = float("inf")
        for one in source.paths:
            if one.is_left and not one.path.want and one.path.recent:
                complete = one.completes_at
                if one.path.recent[-1].asked < complete:
                    first = min(first, complete + margin)
        return first

    @staticmethod
    def _goes_on_agreeing(source: _Source) -> float:
        """s.  When the source is asked again while all that it answered last is as it is to be; ``inf``: it is not."""
        left = [one for one in source.paths if one.is_left]
        if source.agree_every is None or not left or not all(one.agrees for one in left):
            return float("inf")
        return source.due - source.cadence + source.agree_every

    def _sees_change(self, source: _Source) -> float:
        """s.  When the source is asked again since a change has not taken effect for all its paths; ``inf``: it has.

        A path that is to be closed still connects; one that is to be open again has not connected yet.  Changes mostly
        take effect long before the cadence has passed.
        """
        if source.pause is None or source.pause >= source.cadence:
            return float("inf")
        if not any(
            self._is_as_before(one.path) for one in source.paths if one.is_left and one.path.tries
        ):
            return float("inf")
        return source.due - source.cadence + source.pause

    def _is_as_before(self, path: Path) -> bool:
        """Whether the newest attempt of a path that is to change shows that it has not, as far as is known."""
        newest = path.tries[-1].seen
        if path.want:
            return not self._closed_left and not (newest is not None and as_wanted(newest, True))
        return newest is not None and as_wanted(newest, True)

    def _wants_more(self, one: _Asked, beside: float) -> bool:
        """Whether another attempt could help to decide the path, or a closed one.

        Open paths are asked as long as closed ones are, in turns once they agree: those that are controls to stand
        beside them, the others since what was open before a change took effect says nothing of what is open after it.
        ``beside``: those that were asked last before that moment.
        """
        if one.path.error is not None or (one.path.later and beside == float("inf")):
            return False
        if one.path.want and one.last_asked < beside:
            return True
        if not one.is_left or not self._may_begin(one):
            return False
        if one.path.want:
            return not isinstance(one.standing, Held)
        return not one.may_be_complete

    def _wanted_beside(self) -> float:
        """s.  Open paths that were asked last before it have to be asked again beside the closed ones."""
        never = -float("inf")
        always = float("inf")
        if any(self._wants_more(one, never) for one in self._closed_left):
            return always
        return max((one.last_asked for one in self._closed_left), default=never)

    def _may_begin(self, one: _Asked) -> bool:
        """Whether an attempt that is begun now can still count: in time, or in a row that was begun in time."""
        return (
            self._now <= self._deadline(one.path)
            or self._undecided(one)
            or len(one.path.tries) < AT_LEAST
        )

    def _deadline(self, path: Path) -> float:
        """s.  A row has to be begun by then."""
        if path.want and self._denials_done is not None:
            return max(
                path.rule.within, self._denials_done + (self._settle if self._denials_done else 0.0)
            )
        return path.rule.within

    def _undecided(self, one: _Asked) -> bool:
        """Whether a row that was begun in time is under way, or an unanswered attempt may be its beginning."""
        deadline = self._deadline(one.path)
        standing = one.standing
        if isinstance(standing, NotYet) and standing.row and standing.row[0].at <= deadline:
            return True
        return any(
            attempt.seen is None and attempt.asked <= deadline for attempt in one.path.recent
        )

    # --- hearing ---------------------------------------------------------------------------------------------------

    def _wait(self) -> float:
        """s.  Until something is to be done without an answer."""
        now = self._now
        moments = [self._next_due(source) for source in self._sources.values()]
        if now < self._within:
            moments.append(self._within + TICK)
        return min(PATIENT, max(0.0, min(moments) - now))

    def _hear(self, within: float) -> None:
        """Take the next answer, and all others that have come."""
        answered = self._asking.next(within)
        while answered is not None:
            self._take(answered)
            answered = self._asking.next(0)

    def _take(self, answered: Answered) -> None:
        one, attempt = self._under_way.pop(answered.ticket)
        path = one.path
        seen = answered.observation
        if seen is None:
            self._broke = True
            path.error = (
                path.error
                or answered.error
                or ProbeBroken(f"{path.attempt.label}: nothing was observed")
            )
        else:
            at = attempt.asked
            error = float("inf")
            if seen.began_at is not None and seen.began_at_error is not None:
                at = seen.began_at - unix(self._began)
                error = seen.began_at_error
            if attempt is path.tries[0] and at > one.source.cadence:
                # Its agent had to be started: nothing could be seen before, and that time is not the network's.
                path.rule = replace(path.rule, within=path.rule.within + at)
            path.answer(attempt, seen, at=at, error=error, came=self._now)
            self._machine.late(
                self._now - max(at + seen.seconds + error, self._looked), self._clock.monotonic()
            )
        self._changed[one] = None
        self._changed.update(
            (closed, None) for kind in one.beside for closed in kind if closed.alone
        )

    # --- deciding --------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        """Look again at what has changed; at everything, once time is over."""
        changed = self._changed
        self._changed = {}
        for one in changed:
            one.source.sooner = None
            if one.is_left:
                self._look_again(one)
        self._drop_without_control()
        ended = self._denials_done is None and not self._closed_left
        if ended:
            self._denials_done = self._now
        self._end_decided(list(self._left if ended or self._now > self._earliest else changed))

    def _look_again(self, one: _Asked) -> None:
        one.standing = decide(one.path)
        if isinstance(one.standing, NotYet):
            one.alone = one.standing.alone
        elif not one.path.want or isinstance(one.standing, Broken):
            self._end(one)

    def _end_decided(self, several: Sequence[_Asked]) -> None:
        """End paths that hold, or that no attempt could decide any more, unless all are given more
        time."""
        for one in several:
            if not one.is_left:
                continue
            if isinstance(one.standing, Held):
                if self._denials_done is not None:
                    self._end(one)
            elif self._is_over(one):
                standing = conclude(one.path, about_denial=self._about_denial)
                if (
                    isinstance(standing, Wrong | BrokenControl)
                    and standing.why in LATE
                    and self._gives_more()
                ):
                    return
                one.standing = standing
                self._end(one)

    def _gives_more(self) -> bool:
        """Give all paths that are left their budget once more, where the machine ran late; once."""
        if self._given is None:
            self._given = self._machine.more(self._within, self._began)
            for one in self._left if self._given else ():
                rule = one.path.rule
                one.path.rule = replace(rule, within=rule.within + self._given)
                one.path.given = self._given
            self._within += self._given
            return self._given > 0
        return False

    def _give_up_lost(self) -> None:
        """End what is wrong with paths whose ends are lost; what it takes to find out is no lateness."""
        wrong = {one.path: one for one in self._left if not isinstance(one.standing, Held)}
        for path in self._lost(list(wrong)) if wrong else ():
            if len(path.tries) >= AT_LEAST:
                wrong[path].standing = conclude(path, about_denial=self._about_denial)
                self._end(wrong[path])
        self._looked = self._now
        self._looks = self._looked + LOOK_AFTER

    def _end(self, one: _Asked) -> None:
        """It stays as it stands."""
        one.is_left = False
        one.alone = False
        one.source.sooner = None
        del self._left[one]
        self._closed_left.pop(one, None)

    def _drop_without_control(self) -> None:
        """A closed path all of whose controls of one kind are broken cannot be decided."""
        if not self._broke:
            return
        self._broke = False
        for one in list(self._closed_left):
            if any(
                all(control.error is not None for control in kind) for kind in one.path.controls
            ):
                one.standing = BrokenControl(Why.CONTROL)
                self._end(one)

    def _is_over(self, one: _Asked) -> bool:
        """Whether no attempt could decide it any more; at least two were answered before that is said."""
        if one.path.want and self._denials_done is None:
            return False  # it is a control still
        answered = sum(attempt.seen is not None for attempt in one.path.tries[: 2 * AT_LEAST])
        return (
            answered >= AT_LEAST
            and not self._may_begin(one)
            and self._now > self._deadline(one.path)
        )
