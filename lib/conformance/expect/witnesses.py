"""Witnesses that a change took effect: without one, what did not happen after it says nothing.

Each looks before the change and after it, and raises ControlBroken when it cannot testify.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from conformance.errors import ControlBroken, Nonconformance, UsageProblem
from conformance.expect import message
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Target, Workload
from conformance.model.host import AclRule
from conformance.model.observation import Observation, Verdict
from conformance.timing import Settled, until

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

Acls = Callable[[str, Workload], tuple[AclRule, ...]]
"""The access rules of a pod's endpoint on a node, as HNS has them now; raises ProbeBroken."""


class Witness(Protocol):
    """Something that a change changes."""

    def before(self) -> None:
        """See how it is before the change.  Raises ControlBroken when it could not show the change any more."""

    def after(self) -> str:
        """See it changed; returns what was seen.  Raises ControlBroken when it does not change in time."""


@dataclass
class Opens:
    """Routes that are closed before a change and that it opens: both are the policy's work, on every subject's node."""

    expect: Expect
    routes: Sequence[tuple[Workload, Target]]

    def before(self) -> None:
        """All of them are closed, so what was in force until now is in force."""
        settled = self._until(Verdict.TIMED_OUT)
        if not settled.met:
            raise self._broken(settled, Verdict.TIMED_OUT, "before the change")

    def after(self) -> str:
        """All of them are open."""
        settled = self._until(Verdict.CONNECTED)
        if not settled.met:
            raise self._broken(settled, Verdict.CONNECTED, "after the change")
        return f"{len(self.routes)} routes opened by it {settled.seconds:.2f} s after it"

    def _until(self, verdict: Verdict) -> Settled[list[Observation]]:
        systems = {end.os for source, target in self.routes for end in (source, *target.backends)}
        patience = [self.expect.timings.of(system) for system in sorted(systems)]
        attempts = [
            Attempt(source=one, target=goal, kind=Kind.TCP, give_up_after=self.expect.timings.of(one.os).tcp_give_up)
            for one, goal in self.routes
        ]
        return until(
            lambda: self.expect.prober.observe(attempts),
            lambda seen: all(one.verdict is verdict for one in seen),
            within=max(one.policy_effect for one in patience),
            every=min(one.poll_every for one in patience),
            what=f"the witness is {verdict}",
            clock=self.expect.clock,
        )

    def _broken(self, settled: Settled[list[Observation]], verdict: Verdict, when: str) -> ControlBroken:
        wrong = next(n for n, one in enumerate(settled.last) if one.verdict is not verdict)
        seen = [round_[wrong] for round_ in settled.seen]
        head = message.headline(self.expect.context.claims, seen[0].attempt, verdict, seen, settled.seconds)
        return ControlBroken(
            f"witness failed {when}: {head}\n  without it nothing shows that the change took effect",
            control="witness",
            seen=seen,
        )


@dataclass
class GivenAnew:
    """ACL lists in HNS that a change has replaced: rules have other ids, even where they say the same."""

    expect: Expect
    acls: Acls
    pods: Sequence[Workload]

    def __post_init__(self) -> None:
        self._had: list[tuple[AclRule, ...]] = []

    def before(self) -> None:
        """Remember them."""
        self._had = self._lists()

    def after(self) -> str:
        """All of them are other lists."""
        settled = self.wait()
        if not settled.met:
            raise ControlBroken(f"witness failed after the change: {self.words(settled)}", control="witness")
        return f"{len(self.pods)} ACL lists given anew {settled.seconds:.2f} s after it"

    def wait(self) -> Settled[list[tuple[AclRule, ...]]]:
        """Wait for that."""
        patience = self.expect.timings.windows
        return until(
            self._lists,
            lambda now: all(_ids(one) != _ids(had) for one, had in zip(now, self._had, strict=True)),
            within=patience.policy_effect,
            every=patience.poll_every,
            what="the ACL lists are given anew",
            clock=self.expect.clock,
        )

    def words(self, settled: Settled[list[tuple[AclRule, ...]]]) -> str:
        """The first pod whose list stayed."""
        pairs = zip(self.pods, settled.last, self._had, strict=True)
        stayed, rules = next((pod, had) for pod, now, had in pairs if _ids(now) == _ids(had))
        return (
            f"{', '.join(self.expect.context.claims) or 'no claim'}  HNS endpoint of {stayed.label}  expected "
            f"another ACL list, observed the same {len(rules)} rules "
            f"({len(settled.seen)} tries, {settled.seconds:.1f} s)"
        )

    def _lists(self) -> list[tuple[AclRule, ...]]:
        return [self.acls(pod.node, pod) for pod in self.pods]


@dataclass
class AclLists:
    """Expectations about the ACL lists of Windows pods' endpoints."""

    expect: Expect
    acls: Acls
    _had: GivenAnew | None = None

    def remember(self, *pods: Workload) -> None:
        """Read them before a change."""
        self._had = GivenAnew(self.expect, self.acls, pods)
        self._had.before()

    def given_anew(self, *, because: str) -> None:
        """Each of them is another list since they were read."""
        lists = self._had
        if lists is None:
            raise UsageProblem("which ACL lists? remember(...) reads them before the change")
        settled = lists.wait()
        shown = [_shown(pod, settled.last, number) for number, pod in enumerate(lists.pods)]
        self.expect.context.attach("ACL lists", "\n\n".join(shown))
        if not settled.met:
            raise Nonconformance(
                f"{lists.words(settled)}\n  because  {because}\n"
                "  do       compare Get-HnsEndpoint before and after, and read Felix' log on that node"
            )


def _ids(rules: Sequence[AclRule]) -> list[str]:
    return [one.id for one in rules]


def _shown(pod: Workload, lists: Sequence[Sequence[AclRule]], number: int) -> str:
    return "\n".join([pod.label, *(str(one) for one in lists[number])])
