# SPDX-License-Identifier: Apache-2.0
"""The paths that a test found open or closed so far. A denial needs open paths as controls."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from conformance.errors import ControlBroken
from conformance.expect.engine import names
from conformance.expect.engine.decide import Broken, BrokenControl, Wrong
from conformance.expect.engine.pairs import key
from conformance.expect.engine.path import Path, Why
from conformance.expect.outcome import Outcome
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Pair, Workload
from conformance.model.observation import Observation


@dataclass(eq=False)
class ObservedPaths:
    """The paths of a test."""

    opened: set[tuple[str, str]] = field(default_factory=set)
    """Paths that were open: these are the controls before a change."""
    closed: dict[tuple[str, str], Pair] = field(default_factory=dict)
    """Paths that were closed and have not been open since then."""
    _addresses: dict[tuple[str, str], str] = field(default_factory=dict)
    """The addresses to which names resolved when their paths were open."""

    def remember(self, path: Path, last: Observation | None) -> None:
        """Record that a path is as expected. ``last``: the path's newest observation."""
        known = key_of(path.attempt)
        self.closed.pop(known, None)
        if path.want:
            self.opened.add(known)
            self._addresses[known] = names.reached(last) if last else ""
        elif path.attempt.target is not None:
            self.closed[known] = (path.attempt.source, path.attempt.target)

    def forget(self, gone: Iterable[Workload]) -> None:
        """Forget the paths of pods that the test has removed: closed paths of such pods will not
        open again."""
        uids = {pod.uid for pod in gone}
        for known, (source, target) in list(self.closed.items()):
            if uids & {source.uid, *(backend.uid for backend in target.backends)}:
                del self.closed[known]

    def demand_same_addresses(
        self, outcomes: Sequence[Outcome], leads_to: Callable[[Outcome], str]
    ) -> None:
        """Leave a closed path undecided if its name no longer resolves to the address that it had
        while the path was open: the denial would prove nothing."""
        for outcome in outcomes:
            attempt = outcome.path.attempt
            before = self._addresses.get(key_of(attempt), "")
            if outcome.path.want or not outcome.held or not before or not names.named(attempt):
                continue
            now = leads_to(outcome)
            if before not in now.split(", "):
                text = (
                    f"{attempt.label}: the name resolved to {before} while the path was open, "
                    "and now resolves "
                    f"to {now or 'nothing'}, so a missing answer proves nothing"
                )
                outcome.standing = Broken(ControlBroken(text, control="name"))

    def lose_controls(self, outcomes: Iterable[Outcome]) -> None:
        """Turn failures of wavering open paths into failures of controls, if the paths worked
        earlier in this test: a path that loses packets shows nothing about policies."""
        for outcome in outcomes:
            wavers = outcome.standing == Wrong(Why.WAVERS)
            if wavers and outcome.path.want and key_of(outcome.path.attempt) in self.opened:
                outcome.standing = BrokenControl(Why.WAVERS)

    def demand_controls(
        self,
        open: Sequence[Pair],
        closed: Sequence[Pair],
        new: Collection[str],
        *,
        may_be_shut_in: bool,
    ) -> None:
        """Raise ControlBroken if a dead client or a dead server would look like a denial. Each
        source needs an open path of its own. If a policy may close all its paths
        (``may_be_shut_in``), another source must reach the same target instead. For ``new`` sources
        (uids), another source on the same node must always reach that target."""
        sources = {source.uid for source, _ in open}
        goals = {target.label for _, target in open}
        shown = {(source.node, target.label) for source, target in open if source.uid in new}
        for source, target in closed:
            pair = f"{source.label} -> {target.label}"
            came_later = source.uid in new and (source.node, target.label) in shown
            came_later |= any(pod.uid in new for pod in target.backends) and target.label in goals
            if (source.uid, target.label) not in self.opened and not came_later:
                raise ControlBroken(
                    f"{pair}: this test never found the path open, so a denial would prove "
                    "nothing; check the path with expect.control before the policy is applied",
                    control="before",
                )
            if source.uid not in sources and not (may_be_shut_in and target.label in goals):
                raise ControlBroken(
                    f"{pair}: no open path starts at this client, so a dead client would look "
                    "like a "
                    "denial; name a path from the client to a server that no policy selects",
                    control="beside",
                )


def key_of(attempt: Attempt) -> tuple[str, str]:
    """Return the key that identifies an attempt's path."""
    return key(attempt.source, attempt.target)
