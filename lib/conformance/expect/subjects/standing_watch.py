# SPDX-License-Identifier: Apache-2.0
"""The standing watch: what paths that no test touches answered all through a run, and what that says of policy.

Who holds the run asks them (:mod:`conformance.watch.standing_watch`); here they are judged, once all tests have ended.
Moments are seconds of the machine's monotonic clock, which all processes of a run share.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Literal

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance
from conformance.expect import owners
from conformance.expect.check import Judged
from conformance.expect.engine.answered import ARRIVED
from conformance.expect.explain import message
from conformance.expect.guard import unless_changed
from conformance.expect.subject import Subject
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt
from conformance.model.decision import Side
from conformance.model.endpoint import Workload
from conformance.model.facts import Facts
from conformance.model.observation import DENIED_VERDICTS, Observation, Verdict
from conformance.policy.foreign import ForeignPolicy

AGREE = 2
"""Answers in a row that show something: a single connection may have begun before the denial did."""
NOTICEABLE = 15.0
"""s.  Shorter silences are not told."""
Way = Literal["in", "out", "allowed", "free"]
"""Into and out of a node's watched pod, which policies close; into it, which they allow; and what no policy selects."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Answers of one path in a row that say the same."""

    open: bool | None
    """Of a denied path: whether packets arrived; None: neither that nor a denial.  Of others: whether it connected."""
    asked: tuple[float, float, float]
    """When the first, the second and the last were asked; of what was open: when its packets arrived."""
    count: int
    seen: tuple[Observation, ...]
    """The first of them."""

    @property
    def sure(self) -> bool:
        """Whether enough of them agree."""
        return self.count >= AGREE


@dataclass(kw_only=True, eq=False)
class Watched:
    """One path between the same two pods, for as long as these were there."""

    node: str
    """Whose pod it is about."""
    way: Way
    attempt: Attempt
    before: bool = False
    """It was seen open before there were policies."""
    stretches: tuple[Stretch, ...] = ()
    gone: float = 0.0
    """When one of its pods was found to have changed; 0: both are what they were."""
    since: float = 0.0
    """When it was there to be asked first."""
    due: float = 0.0
    """When it is to be asked next."""
    silent: float = 0.0
    """s.  Longest time between two answers."""

    @property
    def ends(self) -> list[Workload]:
        """Both pods."""
        return [self.attempt.source, *(self.attempt.target.backends if self.attempt.target else ())]

    @property
    def protocol(self) -> str:
        """By what it is asked."""
        return self.attempt.target.protocol if self.attempt.target else ""

    def heard(self, at: float, seen: Observation) -> None:
        """Take in what was asked at that moment; a denied path that opens is asked again at once."""
        is_open: bool | None = seen.verdict is Verdict.CONNECTED
        if self.way in ("in", "out"):
            is_open = (
                True
                if seen.verdict in ARRIVED
                else False
                if seen.verdict in DENIED_VERDICTS
                else None
            )
            self.due = 0.0 if is_open and not self.shows(open=True) else self.due
        at += seen.seconds if is_open else 0.0
        last = self.stretches[-1] if self.stretches else None
        self.silent = max(self.silent, at - last.asked[2] if last else 0.0)
        if last is None or last.open is not is_open:
            self.stretches += (Stretch(open=is_open, asked=(at, at, at), count=1, seen=(seen,)),)
            return
        self.stretches = (
            *self.stretches[:-1],
            replace(
                last,
                asked=(last.asked[0], last.asked[1] if last.sure else at, at),
                count=last.count + 1,
                seen=last.seen if last.sure else (*last.seen, seen),
            ),
        )

    def shows(self, *, open: bool) -> bool:
        """Whether it was surely open, or closed, at some time."""
        return any(one.open is open and one.sure for one in self.stretches)


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A policy of others, or its tier, came, changed or went."""

    at: float
    what: str
    policies: tuple[ForeignPolicy, ...]
    """As it was until then, and as it was from then on: the data plane may be late with either.  None: it was one of
    the watch's own, which is not what it was from then on."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What a watch has kept from when its policies were accepted."""

    began: float
    ended: float
    paths: tuple[Watched, ...]
    events: tuple[tuple[float, str], ...] = ()
    """Services and pods that came and went."""
    foreign: tuple[Edit, ...] = ()
    """What others did to policies."""
    unwatched: dict[str, str] = field(default_factory=dict)
    """Node to why nothing, or nothing more, could be asked there."""
    error: str = ""
    """Why it ended early; empty: it did not."""


Turns = Sequence[Mapping[str, Any]]
"""When each test of the run ``began`` and was ``released``, and the ``nodes`` or the ``cluster`` that it had alone."""


@dataclass
class StandingWatch(Subject):
    """What one run's watch has seen, for the test that decides it."""

    facts: Facts
    told: Callable[[], tuple[Kept, Turns]]
    """Ends the watch, and says what it has kept beside the run's turns."""

    def held(self, *, because: str) -> None:
        """On each node what policies close stayed closed, and what they allow open, from the run's beginning on.

        Raises Nonconformance with the node, the second in which a denied path opened and what happened then,
        EnvironmentBroken for a node that somebody else took away, ControlBroken where a denial was never seen.
        """
        kept, turns = self.told()
        if kept.error:
            raise EnvironmentBroken(f"the standing watch ended early: {kept.error}")
        seconds = f"asked for {kept.ended - kept.began:.0f} s"

        def judge(of_node: _OfNode) -> Judged:
            return of_node.problem() or "; ".join([because, seconds, *of_node.notes])

        found = [
            (None, node, _OfNode(self.expect, node.name, kept, turns, because))
            for node in self.facts.nodes
        ]
        watched = [one for one in found if one[2].paths or one[2].node in kept.unwatched]
        self.check("closed", watched, judge)


@dataclass
class _OfNode:
    """The paths about one node's watched pod."""

    expect: Expect
    node: str
    kept: Kept
    turns: Turns
    because: str
    notes: list[str] = field(default_factory=list)

    @property
    def paths(self) -> list[Watched]:
        """Those that were asked."""
        return [path for path in self.kept.paths if path.node == self.node]

    def problem(self) -> Exception | None:
        """What is wrong with policy on the node, or why nothing can be said; None: it held."""
        wrong = [
            one for way in ("in", "out") for path in self._of(way) if (one := self._opened(path))
        ]
        wrong += [one for path in self._of("allowed") if (one := self._shut(path))]
        if why := self.kept.unwatched.get(self.node):
            wrong.append(EnvironmentBroken(f"node {self.node} could not be watched: {why}"))
        wrong += [one for path in self.paths if (one := self._unheard(path))]
        ways = [
            (way, protocol)
            for way in ("in", "out")
            for protocol in sorted({path.protocol for path in self.paths})
        ]
        wrong += [
            ControlBroken(why, control="before")
            for way in ways
            if (why := self._uncontrolled(*way))
        ]
        return min(wrong, key=lambda one: not isinstance(one, Nonconformance), default=None)

    def _of(self, way: str) -> list[Watched]:
        return [path for path in self.paths if path.way == way]

    def _patience(self, path: Watched) -> float:
        return max(self.expect.timings.of(end.os).policy_effect for end in path.ends)

    def _excused(self, path: Watched, since: float, until: float) -> bool:
        """Whether the run itself had an end's node then, or a pod may have been gone: its address is another's soon."""
        nodes = {end.node for end in path.ends}
        after = self._patience(path)
        noticed = max(
            self.expect.timings.of(end.os).pod_ready for end in path.ends
        )  # so long its successor is awaited
        return bool(path.gone and until > path.gone - noticed) or any(
            (turn["kind"] == "cluster" or nodes & set(turn["nodes"]))
            and turn["began"] <= until
            and since <= turn["released"] + after
            for turn in self.turns
        )

    def _unheard(self, path: Watched) -> Exception | None:
        """What to raise where nothing was heard of a path for half of the watch while its pods were there."""
        last = path.stretches[-1].asked[2] if path.stretches else max(path.since, self.kept.began)
        silent = max(path.silent, 0.0 if path.gone else self.kept.ended - last)
        if silent > NOTICEABLE:
            self.notes.append(f"the path {path.way} was not heard of for {silent:.0f} s")
        late = not path.gone and self.kept.ended - last > (self.kept.ended - self.kept.began) / 2
        if not late or self._excused(path, last, self.kept.ended):
            return None
        second = f"second {last - self.kept.began:.0f} of the watch"
        return EnvironmentBroken(
            f"the path {path.way} of node {self.node} was heard of for the last time in {second}"
        )

    def _opened(self, path: Watched) -> Exception | None:
        """What to raise for a denied path that opened once its denial had been seen, or that was never closed.

        Until a change of policy must have had its effect it may only be coming, and what looks closed a lost packet.
        """
        denied = False
        patience = self._patience(path)
        for one in path.stretches:
            (began, agreed, ended), first = one.asked, path.stretches[0].asked[0]
            denied = denied or (one.open is False and one.sure)
            early = began <= first + patience or not denied
            if (
                not one.open
                or (early and ended <= first + 2 * patience)
                or self._excused(path, began, agreed)
            ):
                continue
            second = f"second {began - self.kept.began:.0f} of the watch"
            if one.sure:
                so = (
                    "was never in force" if early else f"was lost in {second} ({self._then(began)})"
                )
                return self._wrong(
                    path, one, "TIMED_OUT", so, f"for {ended - began:.0f} s", turned=not early
                )
            self.notes.append(f"one connection got through in {second}, which alone shows nothing")
        return None

    def _shut(self, path: Watched) -> Exception | None:
        """What to raise for an allowed path that stayed closed while one that no policy selects worked."""
        opened = False
        for one, after in zip_longest(path.stretches, path.stretches[1:]):
            opened = opened or bool(one.open)
            began = one.asked[0]
            until = (after or one).asked[0 if after else 2]
            if one.open or not opened or self._excused(path, began, until):
                continue
            lasted = f"for {until - began:.1f} s from second {began - self.kept.began:.0f} of the watch on"
            if until - began <= self._patience(path):
                self.notes.append(f"what is allowed was not open {lasted}")
                continue
            if not self._was_free(began, until):
                return ControlBroken(
                    f"nothing got to node {self.node} {lasted}", control="beside", seen=one.seen
                )
            return self._wrong(
                path,
                one,
                "CONNECTED",
                f"closed what it allows ({self._then(began)})",
                lasted,
                turned=True,
            )
        return None

    def _was_free(self, since: float, until: float) -> bool:
        """Whether what no policy selects was surely open all the while."""
        beside = [
            one
            for path in self._of("free")
            for one in path.stretches
            if one.asked[0] < until and one.asked[2] > since
        ]
        return bool(beside) and all(one.open and one.sure for one in beside)

    def _uncontrolled(self, way: str, protocol: str) -> str:
        """Why the denial of a way shows nothing; empty: it was open before, seen closed, and its source was heard."""
        paths = [path for path in self._of(way) if path.protocol == protocol]
        sources = {path.attempt.source.uid for path in paths}
        heard = [
            path
            for path in self.kept.paths
            if path.way in ("allowed", "free") and path.shows(open=True)
        ]
        found = {
            "was not open before the policies": any(path.before for path in paths),
            "was never seen closed": any(path.shows(open=False) for path in paths),
            "has a source that got through to nobody": any(
                path.attempt.source.uid in sources for path in heard
            ),
        }
        why = next((why for why, shown in found.items() if not shown), "")
        return (
            why
            and f"the path {way} by {protocol.upper()} of the watched pod on node {self.node} {why}"
        )

    def _wrong(
        self, path: Watched, one: Stretch, expected: str, so: str, lasted: str, *, turned: bool
    ) -> Exception:
        line = message.explanation(
            self.expect.context.claims,
            path.attempt,
            expected=f"{expected} all through the run",
            because=self.because,
            seen=one.seen,
            seconds=one.asked[2] - one.asked[0],
            so=f"policy of node {self.node} {so}",
            further={
                "lasted": lasted,
                "policies": "the watch's own: into the pod Kubernetes', out of it Calico's",
                "do": f"read Felix' log on node {self.node} for that second",
            },
        )
        line = replace(line, tries=one.count)
        began = one.asked[0]
        want = expected == "CONNECTED"
        if by := self._edited(path, began, want=want):
            return owners.decided(self.expect.context.world.others, line, by)
        verdict = Nonconformance(line, seen=one.seen)
        return unless_changed(
            self.expect, [] if path.gone else path.ends, verdict, want=want, turned=turned
        )

    def _edited(self, path: Watched, began: float, *, want: bool) -> str:
        """Which policies of others that came, changed or went then could give what was seen; empty: none."""
        by = self.expect.context.world.others
        (source, target, protocol) = owners.way(path.attempt)
        at: Side = "both" if want else "target" if path.way == "in" else "source"
        found = [
            edit.what for edit in self.kept.foreign if not edit.policies and edit.at <= began + 1
        ]
        found += [
            f"{told} ({edit.what})"
            for edit in self.kept.foreign
            if began - self._patience(path) <= edit.at <= began + 1
            and (
                told := by.blame(
                    edit.policies,
                    source,
                    target,
                    "closed" if want else "open",
                    protocol=protocol,
                    at=at,
                )
            )
        ]
        return "; ".join(found)

    def _then(self, at: float) -> str:
        """Which tests ran then, and what came and went; what is beyond a line's length is counted."""
        ran = [
            turn["test"] for turn in self.turns if turn["began"] - 1 <= at <= turn["released"] + 1
        ]
        found = [f"during {test.rpartition('::')[2]}" for test in ran]
        found += [text for when, text in reversed(self.kept.events) if at - 2 <= when <= at + 1]
        return (
            "; ".join(found[:4]) + (f" and {len(found) - 4} more" if found[4:] else "")
            or "nothing happened then"
        )
