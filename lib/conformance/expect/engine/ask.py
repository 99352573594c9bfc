"""Asking until everything is decided: attempts begin at a cadence while older ones wait, and are heard as they end.

Knows when to ask; what the answers mean is :mod:`conformance.expect.engine.decide`'s to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from conformance.errors import EnvironmentBroken, ProbeBroken
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
    completes_at,
    conclude,
    decide,
)
from conformance.model.attempt import Attempt
from conformance.probe.asking import Answered
from conformance.probe.clocks import unix
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
PATIENT = 1.0
"""s.  Longest wait for an answer before looking at the clock again."""


class Asking(Protocol):
    """What asking needs of probing: attempts that leave when they are begun."""

    def begin(self, attempts: Sequence[Attempt]) -> list[int]:
        """Send attempts; their tickets."""

    def next(self, within: float) -> Answered | None:
        """The next result, or None after so many seconds."""

    def waits(self, source: str) -> bool:
        """Whether some of a source's attempts have not left yet: its agent is being started, or has its hands full."""

    def cancel(self) -> None:
        """End everything that is under way."""


def ask(
    asking: Asking,
    paths: Sequence[Path],
    *,
    cadence: Mapping[str, float],
    settle: float,
    clock: Clock,
    about_denial: bool = False,
    agreeing: Mapping[str, float] | None = None,
) -> list[Standing]:
    """How each path ends, once all are decided or no attempt that may still be made could decide them.

    Cancels what is under way, however it ends.

    ``cadence``: source's uid to the seconds between its attempts.  ``settle``: seconds that an open path which was
    open before has to be so again, once every closed path is decided.  ``about_denial``: what is said is about denials
    although no path is to be closed, so that an open one that wavers is a broken control.  ``agreeing``: the same as
    ``cadence`` while all attempts of a source are as they are to be, where no path is to be closed.  It is also the
    first pause after a change, and doubles up to ``cadence`` while the change is not seen to have taken effect.
    """
    one = _Round(asking, paths, cadence, settle, clock, about_denial=about_denial, agreeing=agreeing or {})
    try:
        return one.run()
    finally:
        asking.cancel()


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
    ) -> None:
        self._asking, self._paths, self._cadence, self._settle, self._clock = asking, paths, cadence, settle, clock
        self._began = clock.monotonic()
        self._within = max((path.rule.within for path in paths), default=0.0)
        self._earliest = min((path.rule.within for path in paths), default=0.0)
        """s.  Before it no time is over: budgets only grow."""
        self._by_source: dict[str, list[Path]] = {}
        for path in paths:
            self._by_source.setdefault(path.attempt.source.uid, []).append(path)
        self._left = {id(path): path for path in paths}
        """Paths that may still become something else."""
        self._closed_left = {id(path): path for path in paths if not path.want}
        self._about_denial = about_denial or bool(self._closed_left)
        self._controls = _Controls(self._closed_left.values())
        self._alone: set[int] = set()
        """Closed paths, by id(), with a time-out that no control was seen beside yet."""
        self._due = dict.fromkeys(self._by_source, 0.0)
        self._pause: dict[str, float] = {}
        """s.  Source to the pause after its newest attempts while a change is not seen; at most a cadence."""
        self._held_until: dict[str, float] = {}
        """s.  Source, whose attempts did not leave, to when it is looked at again."""
        self._agreeing: Mapping[str, float] = {} if self._closed_left else agreeing
        self._until_seen = dict(agreeing) if self._about_denial else {}
        """s.  Source to its next pause while a change of policy is not seen to have taken effect for it."""
        self._sooner: dict[str, float] = {}
        """s.  Source to when it is due before its cadence says so; only those where nothing has changed since."""
        self._asked: dict[int, tuple[Path, Try]] = {}
        self._standing: dict[int, Standing] = {id(path): NotYet((), None) for path in paths}
        self._changed: dict[int, Path] = dict(self._left)
        self._broke = False
        """Whether an attempt broke since that was last looked at."""
        self._denials_done: float | None = None if self._closed_left else 0.0
        """s.  When every closed path was decided; None: not yet."""

    @property
    def _now(self) -> float:
        return self._clock.monotonic() - self._began

    def run(self) -> list[Standing]:
        while True:
            self._judge()
            if not self._left:
                return [self._standing[id(path)] for path in self._paths]
            self._begin_due()
            self._hear(self._wait())

    # --- asking ----------------------------------------------------------------------------------------------------

    def _begin_due(self) -> None:
        now = self._now
        due: list[str] = []
        for uid in self._by_source:
            if self._next_due(uid) <= now + TICK:
                # An agent that hangs is seen to hang, and a busy one to be behind: neither is asked for more and more.
                if self._asking.waits(uid) or self._is_behind(uid):
                    self._held_until[uid] = now + min(LOOK, self._cadence[uid])
                    continue
                self._due[uid] = now + self._cadence[uid]
                self._pause[uid] = self._until_seen.get(uid, self._cadence[uid])
                self._until_seen[uid] = 2 * self._pause[uid]
                due.append(uid)
        if not due:
            return
        beside = self._wanted_beside()
        several = [path for uid in due for path in self._by_source[uid] if self._wants_more(path, beside)]
        if several:
            for path in several:
                self._sooner.pop(path.attempt.source.uid, None)
            tickets = self._asking.begin([path.attempt for path in several])
            self._asked.update({ticket: (path, path.ask(now)) for ticket, path in zip(tickets, several, strict=True)})

    def _is_behind(self, uid: str) -> bool:
        """Whether more than a few attempts of the source at servers that have answered it are unanswered.

        Attempts at closed paths do not count: that nothing answers them is what is to be seen.
        """
        since, owed = self._now - BEHIND, 0
        for path in self._by_source[uid]:
            if path.has_connected:
                owed += sum(attempt.seen is None and attempt.asked > since for attempt in path.recent)
        return owed > FEW

    def _next_due(self, uid: str) -> float:
        """By the source's cadence, or sooner where an attempt would complete a row, all that it was asked agrees, or a
        change is yet to take effect."""
        if uid not in self._sooner:
            self._sooner[uid] = min(self._completes_row(uid), self._goes_on_agreeing(uid), self._sees_change(uid))
        return max(min(self._due[uid], self._sooner[uid]), self._held_until.get(uid, 0.0))

    def _completes_row(self, uid: str) -> float:
        """s.  When an attempt of the source would complete a row, if none is begun by then; ``inf``: never."""
        margin, first = min(MARGIN, self._cadence[uid] / 2), float("inf")
        for path in self._by_source[uid]:
            if id(path) in self._closed_left and path.recent:
                complete = self._completes_at(path)
                if path.recent[-1].asked < complete:
                    first = min(first, complete + margin)
        return first

    def _goes_on_agreeing(self, uid: str) -> float:
        """s.  When the source is asked again while all that it answered last is as it is to be; ``inf``: it is not."""
        if uid not in self._agreeing:
            return float("inf")
        left = [path for path in self._by_source[uid] if id(path) in self._left]
        if not left or not all(self._agrees(path) for path in left):
            return float("inf")
        return self._due[uid] - self._cadence[uid] + self._agreeing[uid]

    def _sees_change(self, uid: str) -> float:
        """s.  When the source is asked again since a change has not taken effect for all its paths; ``inf``: it has.

        A path that is to be closed still connects; one that is to be open again has not connected yet.  Changes mostly
        take effect long before the cadence has passed.
        """
        pause = self._pause.get(uid, self._cadence[uid])
        if pause >= self._cadence[uid]:
            return float("inf")
        left = (path for path in self._by_source[uid] if id(path) in self._left and path.tries)
        if not any(self._is_as_before(path) for path in left):
            return float("inf")
        return self._due[uid] - self._cadence[uid] + pause

    def _is_as_before(self, path: Path) -> bool:
        """Whether the newest attempt of a path that is to change shows that it has not, as far as is known."""
        newest = path.tries[-1].seen
        if path.want:
            return not self._closed_left and not (newest is not None and as_wanted(newest, True))
        return newest is not None and as_wanted(newest, True)

    def _agrees(self, path: Path) -> bool:
        """Whether its newest attempt was answered, as it is to be, and more of the kind decide it."""
        standing = self._standing[id(path)]
        return isinstance(standing, NotYet) and bool(standing.row) and path.tries[-1].seen is not None

    def _may_be_complete(self, path: Path) -> bool:
        """Whether an unanswered attempt may be the last one of the row that is under way."""
        newest = path.recent[-1] if path.recent else None
        return newest is not None and newest.seen is None and newest.asked >= self._completes_at(path)

    def _wants_more(self, path: Path, beside: float) -> bool:
        """Whether another attempt could help to decide the path, or a closed one.

        Open paths are asked as long as closed ones are: those that are controls to stand beside them, the others since
        what was open before a change took effect says nothing of what is open after it.  ``beside``: those that were
        asked last before that moment.
        """
        if path.error is not None:
            return False
        if path.want and (path.tries[-1].asked if path.tries else -float("inf")) < beside:
            return True
        if id(path) not in self._left or not self._may_begin(path):
            return False
        if path.want:
            return not isinstance(self._standing[id(path)], Held)
        return not self._may_be_complete(path)

    def _wanted_beside(self) -> float:
        """s.  Open paths that were asked last before it have to be asked again beside the closed ones."""
        never, always = -float("inf"), float("inf")
        closed = self._closed_left.values()
        if any(self._wants_more(path, never) for path in closed):
            return always
        return max((path.tries[-1].asked for path in closed if path.tries), default=never)

    def _completes_at(self, path: Path) -> float:
        return completes_at(path, self._standing[id(path)])

    def _may_begin(self, path: Path) -> bool:
        """Whether an attempt that is begun now can still count: in time, or in a row that was begun in time."""
        return self._now <= self._deadline(path) or self._undecided(path) or len(path.tries) < AT_LEAST

    def _deadline(self, path: Path) -> float:
        """s.  A row has to be begun by then."""
        if path.want and self._denials_done is not None:
            return max(path.rule.within, self._denials_done + (self._settle if self._denials_done else 0.0))
        return path.rule.within

    def _undecided(self, path: Path) -> bool:
        """Whether a row that was begun in time is under way, or an unanswered attempt may be its beginning."""
        deadline = self._deadline(path)
        standing = self._standing[id(path)]
        if isinstance(standing, NotYet) and standing.row and standing.row[0].at <= deadline:
            return True
        return any(attempt.seen is None and attempt.asked <= deadline for attempt in path.recent)

    # --- hearing ---------------------------------------------------------------------------------------------------

    def _wait(self) -> float:
        """s.  Until something is to be done without an answer."""
        now = self._now
        moments = [self._next_due(uid) for uid in self._by_source]
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
        path, attempt = self._asked.pop(answered.ticket)
        seen = answered.observation
        if seen is None:
            self._broke = True
            path.error = path.error or answered.error or ProbeBroken(f"{path.attempt.label}: nothing was observed")
        else:
            at, error = attempt.asked, float("inf")
            if seen.began_at is not None and seen.began_at_error is not None:
                at, error = seen.began_at - unix(self._began), seen.began_at_error
            if attempt is path.tries[0] and at > self._cadence[path.attempt.source.uid]:
                # Its agent had to be started: nothing could be seen before, and that time is not the network's.
                path.rule = replace(path.rule, within=path.rule.within + at)
            path.answer(attempt, seen, at=at, error=error, came=self._now)
        self._changed[id(path)] = path
        if self._alone:
            alone = [closed for closed in self._controls.of(path) if id(closed) in self._alone]
            self._changed.update((id(closed), closed) for closed in alone)

    # --- deciding --------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        """Look again at what has changed; at everything, once time is over."""
        changed, self._changed = self._changed, {}
        for path in changed.values():
            self._sooner.pop(path.attempt.source.uid, None)
            if id(path) not in self._left:
                continue
            standing = self._standing[id(path)] = decide(path)
            if isinstance(standing, NotYet):
                if standing.alone:
                    self._alone.add(id(path))
                else:
                    self._alone.discard(id(path))
            elif not path.want or isinstance(standing, Broken):
                self._end(path)
        self._drop_without_control()
        ended = self._denials_done is None and not self._closed_left
        if ended:
            self._denials_done = self._now
        for path in list((self._left if ended or self._now > self._earliest else changed).values()):
            if id(path) not in self._left:
                continue
            if isinstance(self._standing[id(path)], Held):
                if self._denials_done is not None:
                    self._end(path)
            elif self._is_over(path):
                self._standing[id(path)] = conclude(path, about_denial=self._about_denial)
                self._end(path)

    def _end(self, path: Path) -> None:
        """It stays as it stands."""
        self._left.pop(id(path))
        self._closed_left.pop(id(path), None)
        self._alone.discard(id(path))
        self._sooner.pop(path.attempt.source.uid, None)

    def _drop_without_control(self) -> None:
        """A closed path all of whose controls of one kind are broken cannot be decided."""
        if not self._broke:
            return
        self._broke = False
        for path in list(self._closed_left.values()):
            if any(all(control.error is not None for control in kind) for kind in path.controls):
                self._standing[id(path)] = BrokenControl(Why.CONTROL)
                self._end(path)

    def _is_over(self, path: Path) -> bool:
        """Whether no attempt could decide it any more; at least two were answered before that is said."""
        if path.want and self._denials_done is None:
            return False  # it is a control still
        answered = sum(attempt.seen is not None for attempt in path.tries[: 2 * AT_LEAST])
        return answered >= AT_LEAST and not self._may_begin(path) and self._now > self._deadline(path)


class _Controls:
    """Which closed paths an open one is a control for; paths may share their controls, and mostly do."""

    def __init__(self, closed: Iterable[Path]) -> None:
        self._kinds: dict[int, list[int]] = {}
        """Open path, by id(), to the kinds of controls that it belongs to."""
        self._closed: dict[int, list[Path]] = {}
        """Kind, by its tuple's id(), to the closed paths that have it."""
        for path in closed:
            for kind in path.controls:
                if id(kind) not in self._closed:
                    self._closed[id(kind)] = []
                    for control in kind:
                        self._kinds.setdefault(id(control), []).append(id(kind))
                self._closed[id(kind)].append(path)

    def of(self, opened: Path) -> Iterator[Path]:
        """The closed paths beside which it may stand; one may come twice."""
        for kind in self._kinds.get(id(opened), ()):
            yield from self._closed[kind]


def first_error(standings: Sequence[Standing]) -> Exception | None:
    """The error that explains most: a pod that changed comes before a probe that broke."""
    errors = [standing.error for standing in standings if isinstance(standing, Broken)]
    return next((error for error in errors if isinstance(error, EnvironmentBroken)), errors[0] if errors else None)
