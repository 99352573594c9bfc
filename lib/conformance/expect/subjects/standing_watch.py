# SPDX-License-Identifier: Apache-2.0
"""Decides, from the records of the standing watch, whether policies stayed in force. During the
whole run, the watch probes paths that no test touches.

The run's main process probes the paths (:mod:`conformance.watch.standing_watch`); this module
judges them after all tests have ended. Times are seconds of the machine's monotonic clock, which
all processes of a run share.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest
from typing import Any, Literal

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance
from conformance.expect import owners
from conformance.expect.check import Judged
from conformance.expect.explain import message
from conformance.expect.guard import unless_changed
from conformance.expect.subject import Subject
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt
from conformance.model.decision import Side
from conformance.model.endpoint import Workload
from conformance.model.facts import Facts
from conformance.model.observation import ARRIVED, Observation, Verdict
from conformance.policy.foreign import ForeignPolicy
from conformance.settings.assumptions import DENIED_VERDICTS

AGREE = 2
"""The number of equal answers in a row that count as a result. A single answer is not enough: its
connection may have begun before the denial."""
NOTICEABLE = 15.0
"""The seconds of silence above which a path without answers is reported."""
Way = Literal["in", "out", "allowed", "free", "dns", "service"]
"""The kinds of watched paths. Policies close paths into (``in``) and out of (``out``) a node's
watched pod, and allow other paths into it (``allowed``). No policy concerns paths between pods that
no policy selects (``free``), to the cluster's DNS (``dns``) and to a Service (``service``)."""
BESIDE = ("dns", "service")
"""The kinds of paths that show nothing about policy; gaps in their answers are recorded."""
GAP = 1.0
"""The seconds above which a gap in the answers of DNS or of Services is recorded."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Consecutive answers of a path with the same result."""

    open: bool | None
    """True: packets arrived (on a denied path), or the attempt connected (on other paths). None: on
    a denied path, neither packets nor a denial were observed."""
    asked: tuple[float, float, float]
    """The times of the first, the second and the last attempt. If the path was open, the times at
    which the packets of these attempts arrived."""
    count: int
    observations: tuple[Observation, ...]
    """The observations of the first attempts."""

    @property
    def sure(self) -> bool:
        """Return whether enough answers agree to count as a result."""
        return self.count >= AGREE


@dataclass(kw_only=True, eq=False)
class Watched:
    """A path between the same two pods, for as long as both exist."""

    node: str
    """The node of the end whose pod the policy selects."""
    way: Way
    attempt: Attempt
    before: bool = False
    """True if the path was open before the watch's policies were applied."""
    stretches: tuple[Stretch, ...] = ()
    gone: float = 0.0
    """The time at which a change of one of the path's pods was noticed; 0 if both pods are
    unchanged."""
    since: float = 0.0
    """The time at which the path could first be tried."""
    due: float = 0.0
    """The time at which the path is tried next."""
    silent: float = 0.0
    """The longest time between two answers, in seconds."""

    @property
    def ends(self) -> list[Workload]:
        """Return the pods at both ends."""
        return [self.attempt.source, *(self.attempt.target.backends if self.attempt.target else ())]

    @property
    def protocol(self) -> str:
        """Return the protocol with which the path is tried."""
        return self.attempt.target.protocol if self.attempt.target else ""

    def record(self, at: float, observation: Observation) -> None:
        """Record an attempt's observation; a denied path that opens is tried again at once."""
        is_open: bool | None = observation.verdict in (Verdict.CONNECTED, Verdict.RESOLVED)
        if self.way in ("in", "out"):
            is_open = (
                True
                if observation.verdict in ARRIVED
                else False
                if observation.verdict in DENIED_VERDICTS
                else None
            )
            self.due = 0.0 if is_open and not self.shows(open=True) else self.due
        at += observation.seconds if is_open else 0.0
        last = self.stretches[-1] if self.stretches else None
        self.silent = max(self.silent, at - last.asked[2] if last else 0.0)
        if last is None or last.open is not is_open:
            self.stretches += (
                Stretch(open=is_open, asked=(at, at, at), count=1, observations=(observation,)),
            )
            return
        self.stretches = (
            *self.stretches[:-1],
            replace(
                last,
                asked=(last.asked[0], last.asked[1] if last.sure else at, at),
                count=last.count + 1,
                observations=last.observations if last.sure else (*last.observations, observation),
            ),
        )

    def gaps(self) -> list[tuple[float, float]]:
        """Return the beginning and the end of each time above :data:`GAP` without an answer."""
        silent = [
            (stretch.asked[0], after.asked[0])
            for stretch, after in pairwise(self.stretches)
            if not stretch.open
        ]
        found: list[tuple[float, float]] = []
        for began, ended in sorted(silent):  # attempts overlap, and their answers come in any order
            if found and began <= found[-1][1]:
                found[-1] = (found[-1][0], max(ended, found[-1][1]))
            else:
                found.append((began, ended))
        return [(began, ended) for began, ended in found if ended - began > GAP]

    def shows(self, *, open: bool) -> bool:
        """Return whether enough agreeing answers show that the path was open (or closed) at some
        time."""
        return any(stretch.open is open and stretch.sure for stretch in self.stretches)


@dataclass(frozen=True, kw_only=True)
class Edit:
    """The addition, change or deletion of a foreign policy or of its tier."""

    at: float
    what: str
    policies: tuple[ForeignPolicy, ...]
    """The policy before and after the edit, since the data plane may enforce either of them. Empty:
    a policy of the watch itself was edited."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The records of a watch from the moment when the API server accepted its policies."""

    began: float
    ended: float
    paths: tuple[Watched, ...]
    events: tuple[tuple[float, str], ...] = ()
    """Services and pods that were added or removed."""
    foreign: tuple[Edit, ...] = ()
    """The changes of policies by other owners."""
    unwatched: dict[str, str] = field(default_factory=dict)
    """The reason why no path, or no further path, could be tried on a node, by node."""
    error: str = ""
    """The reason why the watch ended early; empty if it did not."""


Turns = Sequence[Mapping[str, Any]]
"""For each test of the run: when it ``began`` and was ``released``, and the ``nodes`` or the
``cluster`` that it had to itself."""


@dataclass
class StandingWatch(Subject):
    """The expectation of the test that judges a run's standing watch."""

    facts: Facts
    result: Callable[[], tuple[Kept, Turns]]
    """A function that ends the watch, and returns its records with the run's turns."""

    def held(self, *, because: str) -> None:
        """Expect on each node that closed paths stayed closed, and allowed paths stayed open, since
        the run's beginning.

        Raise Nonconformance with the node, the second in which a denied path opened, and the events
        of that time. Raise EnvironmentBroken if a node was removed, or was lost by another cause.
        Raise ControlBroken if a denial was never observed.
        """
        kept, turns = self.result()
        if kept.error:
            raise EnvironmentBroken(f"the standing watch ended early: {kept.error}")
        seconds = f"probed for {kept.ended - kept.began:.0f} s"

        def judge(of_node: _OfNode) -> Judged:
            return of_node.problem() or "; ".join([because, seconds, *of_node.notes])

        found = [
            (None, node, _OfNode(self.expect, node.name, kept, turns, because))
            for node in self.facts.nodes
        ]
        watched = [entry for entry in found if entry[2].paths or entry[2].node in kept.unwatched]
        self.check("closed", watched, judge)


@dataclass
class _OfNode:
    """The watched paths of one node's watched pod."""

    expect: Expect
    node: str
    kept: Kept
    turns: Turns
    because: str
    notes: list[str] = field(default_factory=list)

    @property
    def paths(self) -> list[Watched]:
        """Return the node's paths that show something about policy."""
        return [
            path for path in self.kept.paths if path.node == self.node and path.way not in BESIDE
        ]

    def problem(self) -> Exception | None:
        """Return the error of a policy that failed on the node, or the error that leaves the node
        undecided; None if the policies held."""
        wrong = [
            error
            for way in ("in", "out")
            for path in self._of(way)
            if (error := self._opened(path))
        ]
        wrong += [error for path in self._of("allowed") if (error := self._shut(path))]
        if why := self.kept.unwatched.get(self.node):
            wrong.append(EnvironmentBroken(f"node {self.node} could not be watched: {why}"))
        wrong += [error for path in self.paths if (error := self._silence(path))]
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
        return min(wrong, key=lambda error: not isinstance(error, Nonconformance), default=None)

    def _of(self, way: str) -> list[Watched]:
        return [path for path in self.paths if path.way == way]

    def _patience(self, path: Watched) -> float:
        return max(self.expect.timings.of(end.os).policy_effect for end in path.ends)

    def _excused(self, path: Watched, since: float, until: float) -> bool:
        """Return whether, between ``since`` and ``until``, a test of the run had a node of the path
        to itself, or a pod of the path may have been gone."""
        return self._may_be_gone(path, until) or bool(self._pauses(path, since, until))

    def _may_be_gone(self, path: Watched, at: float) -> bool:
        """Return whether a pod of the path may have been gone: its address may soon belong to
        another pod."""
        noticed = max(
            self.expect.timings.of(end.os).pod_ready for end in path.ends
        )  # the watch waits this long for a pod's successor
        return bool(path.gone and at > path.gone - noticed)

    def _pauses(self, path: Watched, since: float, until: float) -> list[Mapping[str, Any]]:
        """Return the turns between ``since`` and ``until`` in which a test had a node of the path
        to itself.

        A turn includes the time after its end in which policy may still be missing.
        """
        nodes = {end.node for end in path.ends}
        after = self._patience(path)
        return [
            turn
            for turn in self.turns
            if (turn["kind"] == "cluster" or nodes & set(turn["nodes"]))
            and turn["began"] <= until
            and since <= turn["released"] + after
        ]

    def _outlasted(self, path: Watched, stretch: Stretch) -> list[Mapping[str, Any]]:
        """Return the turns in which a path came into this state, if the state certainly lasted
        longer than the turns; otherwise return none."""
        is_over = stretch.sure and not self._pauses(path, stretch.asked[2], stretch.asked[2])
        return self._pauses(path, *stretch.asked[:2]) if is_over else []

    def _silence(self, path: Watched) -> Exception | None:
        """Return the error for a path that, while its pods existed, had no answer during the second
        half of the watch or longer."""
        last = path.stretches[-1].asked[2] if path.stretches else max(path.since, self.kept.began)
        silent = max(path.silent, 0.0 if path.gone else self.kept.ended - last)
        if silent > NOTICEABLE:
            self.notes.append(f"the path '{path.way}' had no answer for {silent:.0f} s")
        late = not path.gone and self.kept.ended - last > (self.kept.ended - self.kept.began) / 2
        if not late or self._excused(path, last, self.kept.ended):
            return None
        second = f"second {last - self.kept.began:.0f} of the watch"
        return EnvironmentBroken(
            f"the path '{path.way}' of node {self.node} had its last answer in {second}"
        )

    def _opened(self, path: Watched) -> Exception | None:
        """Return the error for a denied path that opened after it was closed, or that was never
        closed.

        As long as a change of policy may not have taken effect, the denial may be missing, and a
        lost packet may look like a denial.
        """
        denied = False
        patience = self._patience(path)
        for stretch in path.stretches:
            began, agreed, ended = stretch.asked
            first = path.stretches[0].asked[0]
            denied = denied or (stretch.open is False and stretch.sure)
            early = began <= first + patience or not denied
            pauses = self._outlasted(path, stretch)
            if (
                not stretch.open
                or (early and ended <= first + 2 * patience)
                or (not pauses and self._excused(path, began, agreed))
            ):
                continue
            second = f"second {began - self.kept.began:.0f} of the watch"
            if pauses:
                return self._not_back(path, stretch, pauses[-1], same=denied)
            if stretch.sure:
                so = (
                    "was never in force" if early else f"was lost in {second} ({self._then(began)})"
                )
                return self._wrong(
                    path, stretch, "TIMED_OUT", so, f"for {ended - began:.0f} s", turned=not early
                )
            self.notes.append(f"one connection got through in {second}, which alone shows nothing")
        return None

    def _not_back(
        self, path: Watched, stretch: Stretch, pause: Mapping[str, Any], *, same: bool
    ) -> Exception:
        """Return the error for a denied path that opened in a pause of the watch and stayed open
        after its policy had to be in force again.

        ``same``: True if the path is between the same pods as when it was closed before.
        """
        (began, _, ended) = stretch.asked
        test = pause["test"].rpartition("::")[2]
        since = f"{ended - pause['released']:.0f} s after {test} ended"
        if not same or self._may_be_gone(path, ended):
            return EnvironmentBroken(
                f"the path '{path.way}' of node {self.node} is open {since}, but its pods were "
                "replaced or changed since the path was closed"
            )
        second = f"second {began - self.kept.began:.0f} of the watch"
        so = f"was lost in {second} ({self._then(began)}) and is not back {since}"
        return self._wrong(
            path, stretch, "TIMED_OUT", so, f"for {ended - began:.0f} s", turned=True
        )

    def _shut(self, path: Watched) -> Exception | None:
        """Return the error of an allowed path that stayed closed while a path between pods that no
        policy selects worked."""
        opened = False
        for stretch, after in zip_longest(path.stretches, path.stretches[1:]):
            opened = opened or bool(stretch.open)
            began = stretch.asked[0]
            until = (after or stretch).asked[0 if after else 2]
            if stretch.open or not opened or self._excused(path, began, until):
                continue
            lasted = f"for {until - began:.1f} s from second {began - self.kept.began:.0f} of the watch on"
            if until - began <= self._patience(path):
                self.notes.append(f"an allowed path was not open {lasted}")
                continue
            if not self._was_free(began, until):
                return ControlBroken(
                    f"nothing reached node {self.node} {lasted}",
                    control="beside",
                    observations=stretch.observations,
                )
            return self._wrong(
                path,
                stretch,
                "CONNECTED",
                f"closed a path that it allows ({self._then(began)})",
                lasted,
                turned=True,
            )
        return None

    def _was_free(self, since: float, until: float) -> bool:
        """Return whether the paths between pods that no policy selects were certainly open the
        whole time."""
        beside = [
            stretch
            for path in self._of("free")
            for stretch in path.stretches
            if stretch.asked[0] < until and stretch.asked[2] > since
        ]
        return bool(beside) and all(stretch.open and stretch.sure for stretch in beside)

    def _uncontrolled(self, way: str, protocol: str) -> str:
        """Return why the denial of a path shows nothing. Return an empty string if the path was
        open before, then closed, and its source was alive."""
        paths = [path for path in self._of(way) if path.protocol == protocol]
        sources = {path.attempt.source.uid for path in paths}
        controls = [
            path
            for path in self.kept.paths
            if path.way in ("allowed", "free") and path.shows(open=True)
        ]
        found = {
            "was not open before the policies": any(path.before for path in paths),
            "was never found closed": any(path.shows(open=False) for path in paths),
            "has a source that reached no server": any(
                path.attempt.source.uid in sources for path in controls
            ),
        }
        why = next((why for why, shown in found.items() if not shown), "")
        return (
            why
            and f"the path '{way}' by {protocol.upper()} of the watched pod on node {self.node} "
            f"{why}"
        )

    def _wrong(
        self, path: Watched, stretch: Stretch, expected: str, so: str, lasted: str, *, turned: bool
    ) -> Exception:
        line = message.explanation(
            self.expect.context.claims,
            path.attempt,
            expected=f"{expected} all through the run",
            because=self.because,
            observations=stretch.observations,
            seconds=stretch.asked[2] - stretch.asked[0],
            so=f"policy of node {self.node} {so}",
            further={
                "lasted": lasted,
                "policies": "the watch's own: a Kubernetes policy for ingress of the pod, a "
                "Calico policy for egress",
                "do": f"read Felix' log on node {self.node} for that second",
            },
        )
        line = replace(line, tries=stretch.count)
        began = stretch.asked[0]
        want = expected == "CONNECTED"
        if by := self._edited(path, began, want=want):
            return owners.decided(self.expect.context.world.others, line, by)
        verdict = Nonconformance(line, observations=stretch.observations)
        return unless_changed(
            self.expect, [] if path.gone else path.ends, verdict, want=want, turned=turned
        )

    def _edited(self, path: Watched, began: float, *, want: bool) -> str:
        """Return the foreign policies that were added, changed or deleted at that time and could
        explain the result; an empty string if there are none."""
        by = self.expect.context.world.others
        (source, target, protocol) = owners.way(path.attempt)
        at: Side = "both" if want else "target" if path.way == "in" else "source"
        found = [
            edit.what for edit in self.kept.foreign if not edit.policies and edit.at <= began + 1
        ]
        found += [
            f"{blame} ({edit.what})"
            for edit in self.kept.foreign
            if began - self._patience(path) <= edit.at <= began + 1
            and (
                blame := by.blame(
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
        """Describe the tests that ran at this moment, and the changes of policies. Entries beyond
        the fourth are only counted."""
        ran = [
            turn["test"] for turn in self.turns if turn["began"] - 1 <= at <= turn["released"] + 1
        ]
        found = [f"during {test.rpartition('::')[2]}" for test in ran]
        found += [text for when, text in reversed(self.kept.events) if at - 2 <= when <= at + 1]
        return (
            "; ".join(found[:4]) + (f" and {len(found) - 4} more" if found[4:] else "")
            or "nothing happened then"
        )
