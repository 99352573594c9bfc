# SPDX-License-Identifier: Apache-2.0
"""Decides each path by its attempts so far. The module uses no clock and no prober, and writes no
text for people.

**Closed.** A path is closed if its attempts, in the order in which its agent began them, contain a
row of time-outs. The row has at least ``agree`` time-outs. The first begins within ``within``, and
at least ``agree_span + hold`` before the last. No earlier attempt may be unanswered, and for each
time-out a control must have connected at the same time.

Controls are open paths of the same source, which must connect within ``near``, and open paths of
other sources to the same target. The latter must connect within a give-up time, since their agents
have clocks of their own and do not begin attempts at the same moments. If an expectation has both
kinds of controls, it needs both, since a dead client looks like a dead server.

Another result or a lost control ends a row, and another row may begin. Once ``agree`` time-outs
span ``agree_span``, any later packet that arrives is a leak at once.

A watched path is tried for ``Rule.watch`` seconds after its row. A packet that arrives then is a
leak, too; no other observation withdraws the row.

SYNs are retransmitted within one attempt, so an outage of ``2 x give_up`` causes a series of
time-outs of at most ``2 x give_up - syn_again``. Settings under which such a series would decide a
path are refused (``settings.timings``).

**Open.** A path is open if the newest ``agree`` of its answered attempts connected in a row, with
no unanswered attempt between them. Each pod that an answer names must be a pod of the target.
Earlier attempts may still be unanswered: they left before the path was open.

If the claim is that the path connects (``Path.steady``), each outage after the first connection (a
time-out, a refusal, another pod) requires ``STEADY`` attempts in a row. Before these attempts, no
attempt since the first connection may be unanswered: a path that loses a part of its connections is
not open.

Paths are decided independently of each other, except for the controls that they share.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from conformance.expect.engine.answered import as_wanted, unexpected_backend
from conformance.expect.engine.names import UNSENT
from conformance.expect.engine.path import EPSILON, Path, Try, Why, began_at, clock_of
from conformance.model.observation import ARRIVED, Observation, Verdict
from conformance.settings.assumptions import DENIED_VERDICTS


@dataclass(frozen=True)
class Held:
    """The path is as expected."""

    row: tuple[Try, ...]
    watched: bool = False
    """The denial lasted for ``Rule.watch``, with a control at its end."""

    @property
    def observations(self) -> list[Observation]:
        """Return the observations of the row."""
        return [attempt.observation for attempt in self.row if attempt.observation is not None]


@dataclass(frozen=True)
class Wrong:
    """The path is not as expected."""

    why: Why


@dataclass(frozen=True)
class BrokenControl:
    """An undecided path: it lost the control without which its attempts mean nothing."""

    why: Why


@dataclass(frozen=True)
class Broken:
    """An undecided path: its probe broke."""

    error: Exception
    why: Why = Why.BROKEN


@dataclass(frozen=True)
class NotYet:
    """An undecided path: a decision needs more attempts."""

    row: tuple[Try, ...]
    """The newest answered attempts that agree."""
    ended: Why | None
    """The reason that ended the previous row; None: no row was ended."""
    alone: bool = False
    """True: a time-out lacks a control that connected at the same time, but a control's answer may
    still arrive."""
    watching: bool = False
    """The ``row`` has decided a denial, and the path is now watched."""


Standing = Held | Wrong | BrokenControl | Broken | NotYet


def decide(path: Path) -> Standing:
    """Return a path's standing after the observations so far; more attempts may follow."""
    if path.error is not None:
        return Broken(path.error)
    return _open(path) if path.want else _closed(path)


def conclude(path: Path, *, about_denial: bool) -> Standing:
    """Return the final standing of a path, if no further attempt could decide it.

    ``about_denial``: the expectation is about denials, so that an open path that wavers is a broken
    control.
    """
    standing = decide(path)
    if not isinstance(standing, NotYet):
        return standing
    if standing.watching:
        return Held(standing.row)
    if path.want:
        return _conclude_open(path, about_denial)
    if standing.ended in (None, Why.CONTROL):
        return BrokenControl(Why.CONTROL)
    return (
        BrokenControl(Why.ASTRAY)
        if standing.ended is Why.ASTRAY
        else Wrong(standing.ended or Why.OPEN)
    )


def completes_at(path: Path, standing: Standing) -> float:
    """Return the time (s, on the suite's clock) at which the attempt that may complete the row
    under way must begin. Return ``inf`` if no row is under way, and no unanswered attempt may begin
    a row."""
    if not isinstance(standing, NotYet):
        return 0.0
    needed = path.rule.span + path.rule.watch
    if standing.row:
        return standing.row[0].at + needed
    pending = next((attempt for attempt in path.recent if attempt.observation is None), None)
    return (pending.asked + needed) if pending is not None else float("inf")


def _closed(path: Path) -> Standing:
    denial = _Denial(path, path.ended)
    answered = path.answered()
    for place, attempt in enumerate(answered, 1):
        standing = denial.take(attempt, place)
        if standing is not None:
            return standing
    if denial.agreed and any(map(_arrived, path.recent[len(answered) :])):
        return Wrong(Why.LEAK)  # no answer to an earlier attempt can change this
    if denial.passed:
        path.pass_over(denial.passed, denial.ended)
    return NotYet(tuple(denial.row), denial.ended, denial.alone, denial.watching)


@dataclass(eq=False)
class _Denial:
    """The row of time-outs of a path that should be closed. Attempts are added in the order in
    which they began."""

    path: Path
    ended: Why | None
    """The reason that ended the newest row."""
    row: list[Try] = field(default_factory=list)
    agreed: bool = False
    """The row is so long that any packet that arrives from now on is a leak."""
    alone: bool = False
    watching: bool = False
    """``alone`` and ``watching``: as in :class:`NotYet`."""
    passed: int = 0
    """The number of attempts, from the oldest on, that can no longer decide anything."""

    def take(self, attempt: Try, place: int) -> Standing | None:
        """Add the attempt at this position, counted from 1. Return the standing that this attempt
        decides, or None if it decides none."""
        assert attempt.observation is not None
        if self.watching:
            return self._watch(attempt, attempt.observation)
        if attempt.observation.verdict in DENIED_VERDICTS and attempt.observation.began is not None:
            if _beside(self.path, attempt):
                return self._extend(attempt)
            # A control may not have answered yet: then the time-out may still become part of a row.
            self._end_row(Why.CONTROL)
            self.alone = True
        elif self.agreed and _arrived(attempt):
            return Wrong(Why.LEAK)
        else:
            self._end_row(_ends_row(self.path, attempt))
            self.passed = place
        return None

    def _watch(self, attempt: Try, observation: Observation) -> Standing | None:
        """Look for a leak after the row has decided a denial. The denial holds once the time of
        watching is over."""
        rule = self.path.rule
        if _arrived(attempt):
            return Wrong(Why.LEAK)
        if attempt.at + EPSILON >= self.row[0].at + rule.span + rule.watch:
            denied = observation.verdict in DENIED_VERDICTS
            return Held(tuple(self.row), watched=denied and _beside(self.path, attempt))
        return None

    def _extend(self, attempt: Try) -> Standing | None:
        """Add a time-out with its control. A time-out on another clock begins a new row."""
        rule = self.path.rule
        if self.row and clock_of(self.row[-1]) != clock_of(attempt):
            self._end_row(self.ended)
        self.row.append(attempt)
        span = began_at(attempt) - began_at(self.row[0]) + EPSILON
        self.agreed = self.agreed or (len(self.row) >= rule.agree and span >= rule.agree_span)
        if self.agreed and span >= rule.span and self.row[0].at <= rule.within:
            if not rule.watch:
                return Held(tuple(self.row))
            self.watching = True
        return None

    def _end_row(self, why: Why | None) -> None:
        self.ended = why
        self.row = []
        self.agreed = False


def _arrived(attempt: Try) -> bool:
    """Return whether the observation shows that a packet reached the target."""
    return (
        attempt.observation is not None
        and attempt.observation.verdict in ARRIVED
        and not unexpected_backend(attempt.observation)
    )


def _ends_row(path: Path, attempt: Try) -> Why:
    assert attempt.observation is not None
    verdict = attempt.observation.verdict
    if verdict in UNSENT or unexpected_backend(attempt.observation):
        return Why.ASTRAY
    if verdict in ARRIVED:
        return Why.OPEN
    return Why.NO_DENIAL if _beside(path, attempt) else Why.CONTROL


def _beside(path: Path, attempt: Try) -> bool:
    """Return whether a control of each kind connected at the time of an attempt."""

    def connected(control: Path) -> bool:
        own = control.attempt.source.uid == path.attempt.source.uid
        near = max(path.rule.near, control.rule.near)
        give_up = min(path.attempt.give_up_after, control.attempt.give_up_after)
        return control.connected_near(attempt, near if own else max(near, give_up))

    return bool(path.controls) and all(any(map(connected, kind)) for kind in path.controls)


def _open(path: Path) -> Standing:
    row: list[Try] = []
    held: list[Try] = []
    """The newest row that decides; an unanswered attempt follows it."""
    ended = path.ended
    agree = path.agree
    owed = False
    for attempt in path.recent:
        if attempt.observation is None:
            held = row if len(row) >= agree and not owed else held
            row = []
            owed = owed or path.may_waver(attempt)
        elif as_wanted(attempt.observation, True):
            row.append(attempt)
        else:
            held = []
            row = []
            ended = Why.ANOTHER_POD if unexpected_backend(attempt.observation) else Why.CLOSED
    path.pass_over(len(path.answered_first) - agree, ended)
    decides = row if len(row) >= agree and not owed else held
    return Held(tuple(decides)) if decides else NotYet(tuple(row), ended)


def _conclude_open(path: Path, about_denial: bool) -> Standing:
    newest = [attempt.observation for attempt in path.answered()][-path.agree :]
    wrong = [
        observation
        for observation in newest
        if observation is not None and not as_wanted(observation, True)
    ]
    if any(map(unexpected_backend, wrong)):
        return Wrong(Why.ANOTHER_POD)
    if (
        about_denial
        and wrong
        and all(observation.verdict is Verdict.NO_ANSWER for observation in wrong)
    ):
        return BrokenControl(
            Why.SILENT
        )  # packets pass; a busy server is no evidence about policies
    if len(wrong) == len(newest):
        return Wrong(Why.CLOSED)
    return BrokenControl(Why.WAVERS) if about_denial else Wrong(Why.WAVERS)
