"""The standing watch: what paths that no test touches answered all through a run, and what that says of policy.

Who holds the run asks them (:mod:`conformance.run.standing_watch`); here they are judged, once all tests have ended.
Moments are seconds of the machine's monotonic clock, which all processes of a run share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Literal

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance
from conformance.expect.engine.answered import ARRIVED
from conformance.expect.explain import message
from conformance.expect.guard import unless_changed
from conformance.expect.tally import Tally
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt
from conformance.model.counted import counted
from conformance.model.endpoint import Workload
from conformance.model.facts import Facts
from conformance.model.observation import DENIED_VERDICTS, Observation, Verdict

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

AGREE = 2
"""Answers in a row that show something: a single connection may have begun before the denial did."""
UNNOTICED = 10.0
"""s.  A pod may have been gone for so long before that was noticed: its address may be another's by then."""
Way = Literal["in", "out", "allowed", "free"]
"""Into and out of a node's watched pod, which policies close; into it, which they allow; and what no policy selects."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Answers of one path in a row that say the same."""

    open: bool | None
    """Of a denied path: whether packets arrived; None: neither that nor a denial.  Of others: whether it connected."""
    asked: tuple[float, float, float]
    """When the first, the second and the last were asked."""
    count: int
    seen: tuple[Observation, ...]
    """The first of them."""


@dataclass(kw_only=True, eq=False)
class Watched:
    """One path between the same two pods, for as long as these were there."""

    node: str
    """Whose pod it is about."""
    way: Way
    attempt: Attempt
    before: bool = False
    """It was seen open before there were policies; of pods that came later nobody could see that."""
    stretches: tuple[Stretch, ...] = ()
    gone: float = 0.0
    """When one of its pods was found to have changed; 0: both are what they were."""
    due: float = 0.0
    """When it is to be asked next."""

    @property
    def ends(self) -> list[Workload]:
        """Both pods."""
        assert self.attempt.target is not None
        return [self.attempt.source, *self.attempt.target.backends]

    def heard(self, at: float, seen: Observation) -> None:
        """Take in what was asked at that moment; a denied path that opens is asked again at once."""
        is_open: bool | None = seen.verdict is Verdict.CONNECTED
        if self.way in ("in", "out"):
            is_open = True if seen.verdict in ARRIVED else False if seen.verdict in DENIED_VERDICTS else None
        last = self.stretches[-1] if self.stretches else None
        if last is None or last.open is not is_open:
            self.stretches += (Stretch(open=is_open, asked=(at, at, at), count=1, seen=(seen,)),)
            self.due = 0.0 if is_open and self.way in ("in", "out") else self.due
            return
        alone = last.count < AGREE
        asked, known = (last.asked[0], at if alone else last.asked[1], at), (*last.seen, seen) if alone else last.seen
        self.stretches = (*self.stretches[:-1], replace(last, asked=asked, count=last.count + 1, seen=known))


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One test of the run; the nodes that it had to itself are not judged meanwhile."""

    test: str
    began: float
    ended: float
    nodes: tuple[str, ...] = ()
    """``*``: all of them."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What a watch has kept at its end."""

    began: float
    """When its policies were accepted."""
    ended: float
    paths: tuple[Watched, ...]
    events: tuple[tuple[float, str], ...] = ()
    """Services and pods that came and went."""
    unwatched: dict[str, str] = field(default_factory=dict)
    """Node to why nothing, or nothing more, could be asked there."""
    error: str = ""
    """Why it ended early; empty: it did not."""


@dataclass
class StandingWatch:
    """What one run's watch has seen, for the test that decides it."""

    expect: Expect
    facts: Facts
    told: Callable[[], tuple[Kept, Sequence[Turn]]]
    """Ends the watch, and says what it has kept beside the run's turns."""

    def held(self, *, because: str) -> None:
        """On each node what policies close stayed closed, and what they allow open, from the run's beginning on.

        Raises Nonconformance with the node, the second in which a denied path opened and what happened then,
        EnvironmentBroken for a node that somebody else took away, ControlBroken where a denial was never seen.
        """
        kept, turns = self.told()
        if kept.error:
            raise EnvironmentBroken(f"the standing watch ended early: {kept.error}")
        tally = Tally(self.expect.context, "closed")
        for node in self.facts.nodes:
            paths = [path for path in kept.paths if path.node == node.name]
            if not paths and node.name not in kept.unwatched:
                continue
            of_node = _OfNode(self.expect, node.name, paths, kept, turns, because)
            if problem := of_node.problem():
                tally.wrong(None, node, problem)
            else:
                tally.right(None, node, f"{because}; {of_node.told}")
        tally.end()


@dataclass
class _OfNode:
    """The paths about one node's watched pod."""

    expect: Expect
    node: str
    paths: Sequence[Watched]
    kept: Kept
    turns: Sequence[Turn]
    because: str
    notes: list[str] = field(default_factory=list)

    @property
    def told(self) -> str:
        """How often what is closed was asked, and when what is allowed was not open."""
        times = sum(one.count for path in self._of("in", "out") for one in path.stretches)
        return "; ".join([f"asked {times} times in {self.kept.ended - self.kept.began:.0f} s", *self.notes])

    def problem(self) -> Exception | None:
        """What is wrong with policy on the node, or why nothing can be said; None: it held."""
        wrong = [one for path in self._of("in", "out") if (one := self._opened(path))]
        wrong += [one for path in self._of("allowed") if (one := self._shut(path))]
        if why := self.kept.unwatched.get(self.node):
            wrong.append(EnvironmentBroken(f"node {self.node} could not be watched: {why}"))
        wrong += [ControlBroken(why, control="before") for way in ("in", "out") if (why := self._uncontrolled(way))]
        return min(wrong, key=lambda one: not isinstance(one, Nonconformance), default=None)

    def _of(self, *ways: Way) -> list[Watched]:
        return [path for path in self.paths if path.way in ways]

    def _patience(self, path: Watched) -> float:
        return max(self.expect.timings.of(end.os).policy_effect for end in path.ends)

    def _excused(self, path: Watched, since: float, until: float) -> bool:
        """Whether the run itself had an end's node then, or a pod may not have been the one that was asked."""
        nodes, after = {"*", *(end.node for end in path.ends)}, self._patience(path)
        return bool(path.gone and until > path.gone - UNNOTICED) or any(
            nodes & set(turn.nodes) and turn.began <= until and since <= turn.ended + after for turn in self.turns
        )

    def _opened(self, path: Watched) -> Exception | None:
        """What to raise for a denied path that opened once its denial had been seen, or that was never closed."""
        denied = False
        for one in path.stretches:
            began, agreed, ended = one.asked
            denied = denied or (one.open is False and one.count >= AGREE)
            never = path.before and not denied and ended - began > 2 * self._patience(path)
            if not one.open or not (denied or never) or self._excused(path, began, agreed):
                continue
            second = f"second {began - self.kept.began:.0f} of the watch"
            if one.count < AGREE:
                self.notes.append(f"one connection got through in {second}, which alone shows nothing")
                continue
            so = f"was lost in {second} ({self._events(began)})" if denied else "was never in force"
            return self._wrong(path, one, "TIMED_OUT", so, f"for {ended - began:.0f} s, {one.count} times")
        return None

    def _shut(self, path: Watched) -> Exception | None:
        """What to raise for an allowed path that stayed closed while one that no policy selects worked."""
        opened = False
        for one, after in zip_longest(path.stretches, path.stretches[1:]):
            opened, began, until = opened or bool(one.open), one.asked[0], (after or one).asked[0 if after else 2]
            if one.open or not opened or self._excused(path, began, until):
                continue
            lasted = f"for {until - began:.1f} s from second {began - self.kept.began:.0f} of the watch on"
            if until - began <= self._patience(path):
                self.notes.append(f"what is allowed was not open {lasted}")
                continue
            free = [each for free in self._of("free") for each in free.stretches if each.asked[0] < until]
            beside = [each for each in free if each.asked[2] > began]
            if not beside or not all(each.open and each.count >= AGREE for each in beside):
                return ControlBroken(f"nothing got to node {self.node} {lasted}", control="beside", seen=one.seen)
            return self._wrong(path, one, "CONNECTED", f"closed what it allows ({self._events(began)})", lasted)
        return None

    def _uncontrolled(self, way: Way) -> str:
        """Why the denial of a way shows nothing; empty: it was open before, seen closed, and its source was heard."""
        paths, what = self._of(way), f"the path {way} of the watched pod on node {self.node}"
        if not any(path.before for path in paths):
            return f"{what} was not open before the policies"
        if not any(one.open is False and one.count >= AGREE for path in paths for one in path.stretches):
            return f"{what} was never seen closed"
        heard = {
            path.attempt.source.uid for path in self.kept.paths if path.way in ("allowed", "free")
            and any(one.open and one.count >= AGREE for one in path.stretches)
        }  # fmt: skip
        return (
            "" if heard & {path.attempt.source.uid for path in paths} else f"{what}: its source got through to nobody"
        )

    def _wrong(self, path: Watched, one: Stretch, expected: str, so: str, lasted: str) -> Exception:
        line = message.connectivity(
            self.expect.context.claims, path.attempt, expected=f"{expected} all through the run", because=self.because,
            seen=one.seen, seconds=one.asked[2] - one.asked[0], so=f"policy of node {self.node} {so}",
            further={
                "lasted": lasted, "policies": "the watch's own: into the pod Kubernetes', out of it Calico's",
                "do": f"read Felix' log on node {self.node} for that second",
            },
        )  # fmt: skip
        verdict = Nonconformance(replace(line, tries=one.count), seen=one.seen)
        return unless_changed(self.expect, [] if path.gone else path.ends, verdict, want=expected == "CONNECTED")

    def _events(self, at: float) -> str:
        """What came and went then, and which tests ran; what is beyond a line's length is counted."""
        found = list(self._then(at))
        more = f" and {counted(len(found) - 4, 'event')} more" if len(found) > 4 else ""
        return "; ".join(found[:4]) + more or "nothing happened then"

    def _then(self, at: float) -> Iterator[str]:
        yield from (f"during {turn.test}" for turn in self.turns if turn.began - 1 <= at <= turn.ended + 1)
        yield from (text for when, text in reversed(self.kept.events) if at - 2 <= when <= at + 1)
