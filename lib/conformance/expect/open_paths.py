# SPDX-License-Identifier: Apache-2.0
"""An open path that an earlier test of the run saw open, and that wavers now: it is asked once more at the run's end.

A link that is overloaded for a minute, or a host that moves, loses packets of a healthy network in the middle of a long
run.  Only what wavers again is a violation; what does not is no statement about the network either way, and both
observations are said.  Not where the test has changed policies, or has nodes to itself: then its own doing is what it
says something about.  A path on which nothing passes is no such path.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from conformance.errors import Wavered
from conformance.expect.engine.decide import STEADY, Broken, Path, Why, Wrong
from conformance.expect.explain import message
from conformance.expect.outcome import Outcome
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict

IN_A_ROW = 2 * STEADY
"""Connections that show that such a path is well again: where a fifth of all is lost, one time in 7,500 by chance."""
Way = tuple[str, str, str]
"""Uid of the source, address or name of the target, protocol: what is lost on the way is lost whatever the port."""


@dataclass
class OpenPaths:
    """What the tests of one process saw open, what wavered after that, and the test that runs."""

    test: str = ""
    may_wait: bool = False
    """Whether it can be run once more at the end."""
    again: bool = False
    """Whether it is run once more."""
    _open: dict[Way, tuple[str, float]] = field(default_factory=dict)
    """The newest test that saw it open, and when (the expectations' clock)."""
    _wavered: dict[Way, str] = field(default_factory=dict)
    """What was seen then."""

    def saw(self, outcomes: Sequence[Outcome], now: float) -> None:
        """These paths were decided."""
        for outcome in outcomes:
            if outcome.path.want and outcome.held:
                self._open[way(outcome.path.attempt)] = self.test, now

    def stricter(self, path: Path) -> None:
        """A path that had wavered is well again only after many connections in a row."""
        if self.again and path.steady and way(path.attempt) in self._wavered:
            path.rule = replace(path.rule, agree=max(path.rule.agree, IN_A_ROW))

    def look_at(
        self, outcomes: Sequence[Outcome], claims: Sequence[str], now: float, *, changed: bool
    ) -> None:
        """Put off what wavers for the first time; of what had wavered before, tell what was seen then.

        ``now``: by the expectations' clock.  ``changed``: the test has changed policies.
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
        by = f"it wavers, and {before} saw it open {now - when:.0f} s before: asked once more at the end of the run"
        self._wavered[way(path.attempt)] = message.summary(outcome.seen)
        outcome.standing = Broken(Wavered(outcome.explained(claims, by)))


def way(attempt: Attempt) -> Way:
    """What a path is known by."""
    target = attempt.target
    return attempt.source.uid, target.host if target else "", target.protocol if target else ""
