# SPDX-License-Identifier: Apache-2.0
"""The decision about each path by its attempts so far.  Pure: no clock, no prober, no text for
people.

**Closed.**  Among a path's attempts, in the order in which its agent began them, there is a row of
time-outs: at least ``agree`` of them, the first begun within ``within`` and at least ``agree_span +
hold`` before the last, no earlier attempt unanswered, and each with a control that connected beside
it.  Controls are open paths of the same source, which have to connect within ``near``, and open
paths of other sources to the same target, which have to connect within a give-up time: their agents
keep time by themselves and are not asked at the same moments.  An expectation that has both needs
both, since a dead client and a dead server look alike.  Another result or a lost control ends a
row, and another row may begin.  Once ``agree`` time-outs that span ``agree_span`` have agreed, a
packet that arrives is a leak at once.

A path that is watched (``Rule.watch``) is asked for that long after its row: a packet that arrives
then is a leak, too, and no other observation takes the row back.

SYNs are retransmitted within one attempt, so an outage of ``2 x give_up`` yields a run of time-outs
of at most ``2 x give_up - syn_again``: settings by which such a run would decide are refused
(``settings.timings``).

**Open.**  Of the answered attempts the newest ``agree`` connected in a row, with no unanswered
attempt between them, and where the answer names its pod, that is a pod of the target.  Attempts
from before may still wait: they left before the path was open.  Where the claim is that the path
connects (``Path.steady``), each outage after the first connection (a time-out, a refusal, another
pod) needs ``STEADY`` attempts in a row, and no attempt from after the first connection may still
wait before them: a path that loses a part of its connections is not open.

Paths are decided independently of each other, but for the controls that they share.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise, takewhile

from conformance.expect.engine.answered import ARRIVED, as_wanted, unexpected_backend
from conformance.expect.engine.names import UNSENT
from conformance.model.attempt import Attempt, Kind
from conformance.model.observation import Observation, Verdict
from conformance.settings import OsTimings
from conformance.settings.assumptions import DENIED_VERDICTS

LARGE = "?" + "a" * 999
"""The payload of every second datagram of a path that should be closed: a denial holds for
everything that fits into a packet."""
LOSSES = DENIED_VERDICTS | {Verdict.REFUSED}
STEADY = 20
"""Attempts in a row that make up for one outage of a path that had connected before.  Where a fifth of all connections
is lost, three in a row connect by chance each second time, twenty one time in 87, and forty one time in 7,500."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The rule that decides one path; times in seconds."""

    agree: int
    """Attempts in a row."""
    agree_span: float
    """From the beginning of the first to that of the last attempt that make a denial agreed."""
    hold: float
    """From then on it must last."""
    near: float
    """A control that connected was begun so close to the attempt that it stands beside."""
    within: float
    """From the expectation's beginning to the beginning of the row's first attempt."""
    watch: float = 0.0
    """From the end of a row that decides a denial on it is watched for a leak."""

    @classmethod
    def of(cls, source: OsTimings, ends: Sequence[OsTimings], within: float) -> Rule:
        """Return the rule that the slowest of a path's ends needs; its source is asked as often as
        its system says."""
        return cls(
            agree=max(timings.agree for timings in ends),
            agree_span=max(timings.agree_span for timings in ends),
            hold=max(timings.hold for timings in ends),
            near=source.poll_every,
            within=within,
        )

    def for_single_packets(self, give_up: float) -> Rule:
        """Return the rule for attempts that send no packet again (UDP): their row must outlast two
        give-up times alone."""
        return replace(self, hold=max(self.hold, 2 * give_up - self.agree_span + self.near))

    @property
    def span(self) -> float:
        """Return the seconds from the beginning of the first to that of the last time-out of a
        row."""
        return self.agree_span + self.hold


@dataclass(eq=False)
class Try:
    """An attempt of a path: when it was requested, and its observation once it is answered."""

    asked: float
    """s.  From the expectation's beginning, on the suite's clock."""
    observation: Observation | None = None
    at: float = 0.0
    """s.  As ``asked``, when its agent began it: an estimate; ``asked`` until it is answered."""
    error: float = 0.0
    """s.  By how much ``at`` may be wrong."""
    came: float = 0.0
    """s.  As ``asked``, when its answer arrived."""

    def __post_init__(self) -> None:
        self.at = self.asked


@dataclass(eq=False)
class Path:
    """A path in an expectation, with all its attempts and the paths that are controls for it."""

    attempt: Attempt
    want: bool
    """The path should be open."""
    rule: Rule
    tries: list[Try] = field(default_factory=list)
    """The attempts in the order in which they were started."""
    controls: tuple[tuple[Path, ...], ...] = ()
    """For a closed path: open paths of its source, and open paths to its target, as far as they
    exist."""
    steady: bool = False
    """The claim is that the path stays open; False for controls and for paths that policies leave
    open."""
    later: bool = False
    """The path is no control, and is tried only during the wait for the last attempts at closed
    paths."""
    given: float = 0.0
    """s.  Added to its budget since the machine ran late."""
    error: Exception | None = None
    """The error that broke an attempt: the path is not decided any more."""
    ended: Why | None = None
    """The reason that ended the newest row among the attempts that were passed over."""
    _passed: int = 0
    _connected: dict[str, list[float]] = field(default_factory=dict)
    """Clock to the moments on it at which attempts were begun that connected, in order."""
    _placed: list[tuple[float, float]] = field(default_factory=list)
    """The same on the suite's clock, each with its error."""
    _opened: float = float("inf")
    """s.  As :attr:`Try.asked`, the first attempt that connected."""
    _lost: float = -float("inf")
    """s.  As :attr:`Try.asked`, the last attempt that was lost, or led elsewhere."""

    def ask(self, asked: float) -> Try:
        """Return one attempt more."""
        attempt = Try(asked)
        self.tries.append(attempt)
        return attempt

    @property
    def next_attempt(self) -> Attempt:
        """Return the attempt to make next."""
        large = not self.want and self.attempt.kind is Kind.UDP and len(self.tries) % 2
        return replace(self.attempt, request=LARGE) if large else self.attempt

    def answer(
        self, attempt: Try, observation: Observation, *, at: float, error: float, came: float
    ) -> None:
        """Record the observation of an attempt; times as in :class:`Try`."""
        attempt.observation = observation
        attempt.at = at
        attempt.error = error
        attempt.came = came
        if observation.verdict in LOSSES or unexpected_backend(observation):
            self._lost = max(self._lost, attempt.asked)
        if self.want and as_wanted(observation, True):
            self._opened = min(self._opened, attempt.asked)
            if observation.began is not None:
                insort(self._connected.setdefault(observation.clock, []), observation.began)
            insort(self._placed, (at, error))

    def owes(self, attempt: Try) -> bool:
        """Return whether an attempt is unanswered although the target answered an earlier one."""
        return attempt.observation is None and attempt.asked > self._opened

    @property
    def observations(self) -> list[Observation]:
        """Return the observations of its attempts, in the order of the requests."""
        return [attempt.observation for attempt in self.tries if attempt.observation is not None]

    @property
    def agree(self) -> int:
        """Attempts in a row that decide it."""
        return max(self.rule.agree, STEADY * self._outages) if self.steady else self.rule.agree

    def may_waver(self, attempt: Try) -> bool:
        """Return whether an unanswered attempt may show an outage: it left after the path had
        connected."""
        return self.steady and attempt.asked > self._opened

    @property
    def _outages(self) -> int:
        """Return how often the path was lost or led elsewhere after it had connected; a row counts
        once."""
        if self._lost < self._opened:
            return 0
        kinds = [
            as_wanted(observation, True)
            for observation in self.observations
            if observation.verdict in {*LOSSES, Verdict.CONNECTED}
        ]
        return sum(connected and not after for connected, after in pairwise(kinds))

    @property
    def seconds(self) -> float:
        """Return the seconds from the expectation's beginning to the newest answer."""
        return max(
            (attempt.came for attempt in self.tries if attempt.observation is not None), default=0.0
        )

    @property
    def first_right(self) -> float:
        """Return the time (s) at which the first expected answer arrived; ``inf`` without any."""
        right = (
            attempt.came
            for attempt in self.tries
            if attempt.observation is not None and as_wanted(attempt.observation, self.want)
        )
        return min(right, default=float("inf"))

    @property
    def recent(self) -> list[Try]:
        """Return all attempts but those that are known to decide nothing any more."""
        return self.tries[self._passed :]

    @property
    def answered_first(self) -> list[Try]:
        """Return the tries of :attr:`recent` before the first unanswered one, in the order in which
        they were asked for."""
        return list(takewhile(lambda attempt: attempt.observation is not None, self.recent))

    def answered(self) -> list[Try]:
        """Return the answered attempts in the order in which the agent began them.

        An agent begins attempts in the order of the requests.  A restarted agent has another clock,
        and its attempts come after those of the agent before.
        """
        answered_tries = self.answered_first
        generations = {
            name: place for place, name in enumerate(dict.fromkeys(map(_clock, answered_tries)))
        }
        return sorted(
            answered_tries, key=lambda attempt: (generations[_clock(attempt)], _began(attempt))
        )

    def pass_over(self, count: int, ended: Why | None) -> None:
        """Let the first ``count`` of :meth:`answered` decide nothing any more, whatever is
        observed later.

        ``ended``: the reason that ended the newest row among them.
        """
        self._passed += max(0, count)
        self.ended = ended

    def connected_near(self, attempt: Try, near: float) -> bool:
        """Return whether an attempt of this path that connected began close to another path's
        attempt."""
        assert attempt.observation is not None
        moments = self._connected.get(attempt.observation.clock)
        if moments is not None and attempt.observation.began is not None:
            return _closest(moments, attempt.observation.began) <= near + EPSILON
        first = bisect_left(self._placed, (attempt.at - near, 0.0))
        for at, error in self._placed[first:]:
            if at > attempt.at + near:
                break
            if abs(at - attempt.at) + error + attempt.error <= near + EPSILON:
                return True
        return False


class Why(StrEnum):
    """The fault of a path, or why it could not be decided."""

    LEAK = "a packet arrived after the route had been closed"
    OPEN = "packets arrive"
    NO_DENIAL = "it fails, but not as packets that vanish do"
    CLOSED = "nothing connects"
    WAVERS = "some attempts connect and some do not"
    ANOTHER_POD = "another pod answers"
    SILENT = "the server takes connections and does not answer"
    CONTROL = "its control was lost"
    ASTRAY = "the attempts never went to the target"
    BROKEN = "a probe broke"


@dataclass(frozen=True)
class Held:
    """The path is as it is to be."""

    row: tuple[Try, ...]
    watched: bool = False
    """The denial lasted for ``Rule.watch``, with a control at its end."""

    @property
    def observations(self) -> list[Observation]:
        """Return the observations of the row."""
        return [attempt.observation for attempt in self.row if attempt.observation is not None]


@dataclass(frozen=True)
class Wrong:
    """The path is not as it is to be."""

    why: Why


@dataclass(frozen=True)
class BrokenControl:
    """An undecided path: the control that gives its attempts their meaning was lost."""

    why: Why


@dataclass(frozen=True)
class Broken:
    """An undecided path: its probe broke."""

    error: Exception
    why: Why = Why.BROKEN


@dataclass(frozen=True)
class NotYet:
    """More attempts decide."""

    row: tuple[Try, ...]
    """The newest answered attempts that agree."""
    ended: Why | None
    """The reason that ended the row before it; None: there is none."""
    alone: bool = False
    """A time-out has no control yet: a control's answer can still change the decision."""
    watching: bool = False
    """``row`` has decided a denial, which is watched now."""


Standing = Held | Wrong | BrokenControl | Broken | NotYet
EPSILON = 1e-6


def decide(path: Path) -> Standing:
    """Return how a path stands by the observations so far; more attempts may follow."""
    if path.error is not None:
        return Broken(path.error)
    return _open(path) if path.want else _closed(path)


def conclude(path: Path, *, about_denial: bool) -> Standing:
    """Return how a path ends when no attempt follows that could still decide it.

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
    """Return when the attempt has to begin that may complete the row under way.  In s, on the
    suite's clock.

    ``inf``: no row is under way, and no unanswered attempt may begin one.
    """
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
        return Wrong(Why.LEAK)  # those that were begun before it cannot change that
    if denial.passed:
        path.pass_over(denial.passed, denial.ended)
    return NotYet(tuple(denial.row), denial.ended, denial.alone, denial.watching)


@dataclass(eq=False)
class _Denial:
    """The row of time-outs of a path that is to be closed, attempt by attempt in the order of their
    beginnings."""

    path: Path
    ended: Why | None
    """The reason that ended the newest row."""
    row: list[Try] = field(default_factory=list)
    agreed: bool = False
    """The row is long enough that a packet that arrives is a leak."""
    alone: bool = False
    watching: bool = False
    """A time-out has no control yet, see :class:`NotYet`."""
    passed: int = 0
    """Attempts that decide nothing any more."""

    def take(self, attempt: Try, place: int) -> Standing | None:
        """Add the attempt at this place (from 1 on); return the standing that it decides, None: it
        decides none."""
        assert attempt.observation is not None
        if self.watching:
            return self._watch(attempt, attempt.observation)
        if attempt.observation.verdict in DENIED_VERDICTS and attempt.observation.began is not None:
            if _beside(self.path, attempt):
                return self._extend(attempt)
            # Its control may be unanswered yet: a later answer can still make it part of a row.
            self._end_row(Why.CONTROL)
            self.alone = True
        elif self.agreed and _arrived(attempt):
            return Wrong(Why.LEAK)
        else:
            self._end_row(_ends_row(self.path, attempt))
            self.passed = place
        return None

    def _watch(self, attempt: Try, observation: Observation) -> Standing | None:
        """Look for a leak after the row has decided; the denial holds once the watch is over."""
        rule = self.path.rule
        if _arrived(attempt):
            return Wrong(Why.LEAK)
        if attempt.at + EPSILON >= self.row[0].at + rule.span + rule.watch:
            denied = observation.verdict in DENIED_VERDICTS
            return Held(tuple(self.row), watched=denied and _beside(self.path, attempt))
        return None

    def _extend(self, attempt: Try) -> Standing | None:
        """Add a time-out with a control beside it; one on another clock begins a new row."""
        rule = self.path.rule
        if self.row and _clock(self.row[-1]) != _clock(attempt):
            self._end_row(self.ended)
        self.row.append(attempt)
        span = _began(attempt) - _began(self.row[0]) + EPSILON
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
    """Return whether the observation shows that a packet got to the target."""
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
    """Return whether a control of each kind connected beside an attempt."""

    def connected(control: Path) -> bool:
        own = control.attempt.source.uid == path.attempt.source.uid
        near = max(path.rule.near, control.rule.near)
        give_up = min(path.attempt.give_up_after, control.attempt.give_up_after)
        return control.connected_near(attempt, near if own else max(near, give_up))

    return bool(path.controls) and all(any(map(connected, kind)) for kind in path.controls)


def _open(path: Path) -> Standing:
    row: list[Try] = []
    held: list[Try] = []
    """The newest row that decides, with an unanswered attempt after it."""
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
        )  # its packets pass: a server that is too busy is no evidence about policies
    if len(wrong) == len(newest):
        return Wrong(Why.CLOSED)
    return BrokenControl(Why.WAVERS) if about_denial else Wrong(Why.WAVERS)


def link(paths: Iterable[Path]) -> None:
    """Give each closed path its controls among the open paths; paths of a source or to a target
    share them."""
    linked = list(paths)
    by_source: dict[str, list[Path]] = {}
    by_target: dict[str, list[Path]] = {}
    for path in linked:
        if path.want:
            by_source.setdefault(path.attempt.source.uid, []).append(path)
            if path.attempt.target:
                by_target.setdefault(path.attempt.target.label, []).append(path)
    of_source = {uid: tuple(opened) for uid, opened in by_source.items()}
    to_target = {label: tuple(opened) for label, opened in by_target.items()}
    for path in linked:
        if path.want:
            continue
        goal = path.attempt.target.label if path.attempt.target else ""
        kinds = (of_source.get(path.attempt.source.uid, ()), to_target.get(goal, ()))
        path.controls = tuple(kind for kind in kinds if kind)


def _clock(attempt: Try) -> str:
    return attempt.observation.clock if attempt.observation else ""


def _began(attempt: Try) -> float:
    """Return when an attempt began on the agent's clock; if it sent no packet, when it was
    requested.
    """
    return (
        attempt.observation.began
        if attempt.observation and attempt.observation.began is not None
        else attempt.asked
    )


def _closest(moments: Sequence[float], moment: float) -> float:
    """Distance to the nearest of some ordered moments."""
    place = bisect_left(moments, moment)
    return min(
        (abs(number - moment) for number in moments[max(0, place - 1) : place + 1]),
        default=float("inf"),
    )
