# SPDX-License-Identifier: Apache-2.0
"""A path in an expectation: the rule that decides it, and its attempts so far."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise, takewhile

from conformance.expect.engine.answered import as_wanted, unexpected_backend
from conformance.model.attempt import Attempt, Kind
from conformance.model.observation import Observation, Verdict
from conformance.settings import OsTimings
from conformance.settings.assumptions import DENIED_VERDICTS

LARGE = "?" + "a" * 999
"""The payload of every second datagram of a path that should be closed: a denial must hold for
everything that fits into a packet."""
LOSSES = DENIED_VERDICTS | {Verdict.REFUSED}
STEADY = 20
"""The number of successful attempts in a row that make up for one outage of a path that had
connected before. If a fifth of all connections is lost, three attempts in a row connect by chance
every second time, twenty once in 87 times, and forty once in 7,500 times."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The rule that decides one path; times in seconds."""

    agree: int
    """The number of attempts in a row that must agree."""
    agree_span: float
    """The least time between the beginnings of the first and the last attempt of an agreed denial.
    """
    hold: float
    """Seconds for which a denial must last after its attempts agree."""
    near: float
    """A control counts for an attempt only if both began within this many seconds of each other."""
    within: float
    """The longest time from the expectation's beginning to the beginning of the row's first
    attempt."""
    watch: float = 0.0
    """Seconds for which a denial is watched for a leak, from the end of the row that decided it."""

    @classmethod
    def of(cls, source: OsTimings, ends: Sequence[OsTimings], within: float) -> Rule:
        """Return the rule that the slower end of a path needs, with the cadence of the source's
        operating system."""
        return cls(
            agree=max(timings.agree for timings in ends),
            agree_span=max(timings.agree_span for timings in ends),
            hold=max(timings.hold for timings in ends),
            near=source.poll_every,
            within=within,
        )

    def for_single_packets(self, give_up: float) -> Rule:
        """Return the rule for attempts that send no packet again (UDP): their row must last longer
        than two give-up times."""
        return replace(self, hold=max(self.hold, 2 * give_up - self.agree_span + self.near))

    @property
    def span(self) -> float:
        """Return the least number of seconds between the beginnings of the first and the last
        time-out of a row."""
        return self.agree_span + self.hold


@dataclass(eq=False)
class Try:
    """An attempt of a path: when it was requested, and its observation once it is answered."""

    asked: float
    """The time of the request on the suite's clock, in seconds from the expectation's beginning."""
    observation: Observation | None = None
    at: float = 0.0
    """The estimated time at which the agent began the attempt, in seconds from the same beginning
    as ``asked``. Until the attempt is answered, this is the value of ``asked``."""
    error: float = 0.0
    """The possible error of ``at``, in seconds."""
    came: float = 0.0
    """The time at which the answer arrived, in seconds from the same beginning as ``asked``."""

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
    controls: tuple[tuple[Path, ...], ...] = field(default=(), repr=False)
    """For a closed path: open paths of its source, and open paths to its target, if there are any.
    """
    steady: bool = False
    """The claim is that the path stays open; False for controls and for paths that policies leave
    open."""
    later: bool = False
    """The path is no control. It is tried only while the last attempts at closed paths are awaited.
    """
    given: float = 0.0
    """Seconds that were added to the path's time limit because the machine was late."""
    error: Exception | None = None
    """The error that broke an attempt; the path is then left undecided."""
    ended: Why | None = None
    """The reason that ended the newest row among the attempts that were passed over."""
    _passed: int = 0
    _connected: dict[str, list[float]] = field(default_factory=dict)
    """The moments at which successful attempts began, in order, by the agent's clock."""
    _placed: list[tuple[float, float]] = field(default_factory=list)
    """The moments of ``_connected`` on the suite's clock, each with its possible error."""
    _opened: float = float("inf")
    """The time of the first attempt that connected, in seconds from the same beginning as
    :attr:`Try.asked`."""
    _lost: float = -float("inf")
    """The time of the last attempt that was lost or reached another pod, in seconds from the same
    beginning as :attr:`Try.asked`."""

    def ask(self, asked: float) -> Try:
        """Add an attempt to the path and return it."""
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
        """Return whether this attempt is unanswered, although the path was already open when the
        attempt was sent."""
        return attempt.observation is None and attempt.asked > self._opened

    @property
    def observations(self) -> list[Observation]:
        """Return the observations of the path's attempts, in the order of the requests."""
        return [attempt.observation for attempt in self.tries if attempt.observation is not None]

    @property
    def agree(self) -> int:
        """Return the number of attempts in a row that decide the path."""
        return max(self.rule.agree, STEADY * self._outages) if self.steady else self.rule.agree

    def may_waver(self, attempt: Try) -> bool:
        """Return whether an unanswered attempt may show an outage, since it was sent after the path
        had connected."""
        return self.steady and attempt.asked > self._opened

    @property
    def _outages(self) -> int:
        """Return how many outages the path had after it first connected. Failures in a row count as
        one outage."""
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
        """Return the time (s) at which the first expected answer arrived, or ``inf`` if none
        arrived."""
        right = (
            attempt.came
            for attempt in self.tries
            if attempt.observation is not None and as_wanted(attempt.observation, self.want)
        )
        return min(right, default=float("inf"))

    @property
    def recent(self) -> list[Try]:
        """Return all attempts except those that can no longer decide anything."""
        return self.tries[self._passed :]

    @property
    def answered_first(self) -> list[Try]:
        """Return the attempts of :attr:`recent` before the first unanswered attempt, in the order
        of the requests."""
        return list(takewhile(lambda attempt: attempt.observation is not None, self.recent))

    def answered(self) -> list[Try]:
        """Return the answered attempts in the order in which the agent began them.

        An agent begins attempts in the order of the requests. A restarted agent has another clock,
        and its attempts come after those of the earlier agent.
        """
        answered_tries = self.answered_first
        generations = {
            name: place for place, name in enumerate(dict.fromkeys(map(clock_of, answered_tries)))
        }
        return sorted(
            answered_tries, key=lambda attempt: (generations[clock_of(attempt)], began_at(attempt))
        )

    def pass_over(self, count: int, ended: Why | None) -> None:
        """Exclude the first ``count`` attempts of :meth:`answered` from the decision for good.

        ``ended``: the reason that ended the newest row among these attempts.
        """
        self._passed += max(0, count)
        self.ended = ended

    def connected_near(self, attempt: Try, near: float) -> bool:
        """Return whether this path has an attempt that connected and began within ``near`` seconds
        of ``attempt``, which belongs to another path."""
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
    """The fault of a path, or the reason why the path could not be decided."""

    LEAK = "a packet arrived after the path had been closed"
    OPEN = "packets arrive"
    NO_DENIAL = "attempts fail, but not as if packets were dropped"
    CLOSED = "nothing connects"
    WAVERS = "some attempts connect and some do not"
    ANOTHER_POD = "another pod answers"
    SILENT = "the server accepts connections, but does not answer"
    CONTROL = "its control connection failed"
    ASTRAY = "the attempts were never sent to the target"
    BROKEN = "a probe broke"


EPSILON = 1e-6


def link(paths: Iterable[Path]) -> None:
    """Give each closed path its controls among the open paths. Paths with the same source, and
    paths with the same target, share these controls."""
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


def clock_of(attempt: Try) -> str:
    """Return the clock of the agent that began an attempt, or an empty string if the attempt is not
    answered yet."""
    return attempt.observation.clock if attempt.observation else ""


def began_at(attempt: Try) -> float:
    """Return the time at which an attempt began, on the agent's clock. If the attempt sent no
    packet, return the time of its request."""
    return (
        attempt.observation.began
        if attempt.observation and attempt.observation.began is not None
        else attempt.asked
    )


def _closest(moments: Sequence[float], moment: float) -> float:
    """Return the distance from ``moment`` to the nearest of these moments, which are sorted."""
    place = bisect_left(moments, moment)
    return min(
        (abs(number - moment) for number in moments[max(0, place - 1) : place + 1]),
        default=float("inf"),
    )
