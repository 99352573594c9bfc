# SPDX-License-Identifier: Apache-2.0
"""Paths that were open in an earlier test of the run, and lose some connections now, are tried
again at the run's end.

During a long run even a healthy network may lose packets for a minute, because of an overloaded
link or a host that moves. Therefore only a path that wavers (loses some connections) again is a
violation. If the path does not waver again, nothing is decided, and both observations are reported.

A path on which no packet passes is not tried again. Paths of a test that has changed policies, or
has nodes to itself, are not tried again either, since such a test checks its own change.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from conformance.errors import Wavered
from conformance.expect.engine.decide import Broken, Wrong
from conformance.expect.engine.path import STEADY, Path, Why
from conformance.expect.explain import message
from conformance.expect.outcome import Outcome
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict

IN_A_ROW = 2 * STEADY
"""The number of connections in a row which show that a path that wavered works again. If a fifth of
all connections is lost, this happens by chance once in 7,500 times."""
Way = tuple[str, str, str]
"""The key of a path: the source's uid, the target's address or name, and the protocol. The port is
left out, since losses on the network do not depend on it."""


@dataclass
class OpenPaths:
    """The paths that the tests of a process found open, the paths that wavered later, and the state
    of the running test."""

    test: str = ""
    may_wait: bool = False
    """True: the test can be run once more at the run's end."""
    again: bool = False
    """True: the test now runs for the second time."""
    _open: dict[Way, tuple[str, float]] = field(default_factory=dict)
    """For each path, the newest test that found it open, and the time (by the expectations' clock).
    """
    _wavered: dict[Way, str] = field(default_factory=dict)
    """The observations of each path that wavered, from the time when it wavered."""

    def saw(self, outcomes: Sequence[Outcome], now: float) -> None:
        """Record the outcomes of decided paths."""
        for outcome in outcomes:
            if outcome.path.want and outcome.held:
                self._open[way(outcome.path.attempt)] = self.test, now

    def stricter(self, path: Path) -> None:
        """For a path that has wavered, require many connections in a row."""
        if self.again and path.steady and way(path.attempt) in self._wavered:
            path.rule = replace(path.rule, agree=max(path.rule.agree, IN_A_ROW))

    def look_at(
        self, outcomes: Sequence[Outcome], claims: Sequence[str], now: float, *, changed: bool
    ) -> None:
        """In a test's second run, report the earlier observations with each path. In its first run,
        postpone the decision about a path that wavers.

        ``now``: the time by the expectations' clock. ``changed``: the test has changed policies.
        """
        if self.again:
            for outcome in outcomes:
                if outcome.path.want and not outcome.is_control:
                    outcome.wavered = self._wavered.get(way(outcome.path.attempt), "")
        elif self.may_wait and not changed:
            mine = [outcome for outcome in outcomes if self._is_new(outcome)]
            if all(
                outcome in mine or outcome.verdict is not ClaimVerdict.VIOLATED
                for outcome in outcomes
            ):
                for outcome in mine:
                    self._put_off(outcome, claims, now)

    def _is_new(self, outcome: Outcome) -> bool:
        wavers = isinstance(outcome.standing, Wrong) and outcome.standing.why is Why.WAVERS
        before = self._open.get(way(outcome.path.attempt))
        return wavers and not outcome.is_control and before is not None and before[0] != self.test

    def _put_off(self, outcome: Outcome, claims: Sequence[str], now: float) -> None:
        path = outcome.path
        before, when = self._open[way(path.attempt)]
        earlier = (
            f"the path is open only at times, and {before} found it open {now - when:.0f} s earlier"
        )
        by = f"{earlier}: the path is tried again at the end of the run"
        self._wavered[way(path.attempt)] = message.summary(outcome.observations)
        outcome.standing = Broken(Wavered(outcome.explained(claims, by)))


def way(attempt: Attempt) -> Way:
    """Return the key of a path."""
    target = attempt.target
    return attempt.source.uid, target.host if target else "", target.protocol if target else ""
