"""Witnesses that a change took effect: without one, what did not happen after it says nothing.

One that cannot testify raises ControlBroken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import ndiff
from typing import Protocol

from conformance.errors import ControlBroken, Nonconformance, UsageProblem
from conformance.expect import message
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.endpoint import Target, Workload
from conformance.model.host import AclRule
from conformance.model.observation import Observation, Verdict
from conformance.timing import Settled, until

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

Rules = tuple[AclRule, ...]
Acls = Callable[[str, Workload], Rules]
"""The access rules of a pod's endpoint on a node, as HNS has them now; raises ProbeBroken."""


class Witness(Protocol):
    """Something that a change changes."""

    def after(self) -> str:
        """See it changed; returns what was seen.  Raises ControlBroken when it does not change in time."""


class Restart(Protocol):
    """A restart of Felix that was seen to happen."""

    @property
    def node(self) -> str: ...

    @property
    def before(self) -> str:
        """Its pod."""

    @property
    def after(self) -> str:
        """The pod that is ready since."""

    @property
    def seconds(self) -> float:
        """From the one's deletion to the other's readiness."""

    @property
    def note(self) -> str:
        """What else was seen; empty: nothing."""


@dataclass
class Opens:
    """Routes that are closed before a change and that it opens: both are the policy's work, on every subject's node."""

    expect: Expect
    routes: Sequence[tuple[Workload, Target]]

    def before(self) -> None:
        """All of them are closed, so what was in force until now is in force."""
        settled = self._until(Verdict.TIMED_OUT)
        if not settled.converged:
            raise self._broken(settled, Verdict.TIMED_OUT, "before the change")

    def after(self) -> str:
        """All of them are open."""
        settled = self._until(Verdict.CONNECTED)
        if not settled.converged:
            raise self._broken(settled, Verdict.CONNECTED, "after the change")
        return f"{counted(len(self.routes), 'route')} opened by it {settled.seconds:.2f} s after it"

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
            description=f"the witness is {verdict}",
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


@dataclass(frozen=True)
class Restarted:
    """Felix of one node, as its restart was seen."""

    restart: Restart

    def after(self) -> str:
        """Another Felix has applied everything once: its pod is ready (win_dataplane.go, doneFirstApply)."""
        seen = self.restart
        more = f"; {seen.note}" if seen.note else ""
        return f"Felix on node {seen.node} restarted in {seen.seconds:.2f} s, pod {seen.before} -> {seen.after}{more}"


@dataclass
class AclLists:
    """Expectations about the ACL lists of Windows pods' endpoints.

    Lists are compared with all that their rules say: the ids that Felix gives tell no list from the same given anew.
    """

    expect: Expect
    acls: Acls
    _had: tuple[tuple[Workload, Rules], ...] = ()

    def remember(self, *pods: Workload) -> None:
        """Read them before a change."""
        self._had = tuple((pod, self.acls(pod.node, pod)) for pod in pods)

    def replaced(self, *, because: str) -> None:
        """Each of them says something else since they were read."""
        if not self._had:
            raise UsageProblem("which ACL lists? remember(...) reads them before the change")
        patience = self.expect.timings.windows
        settled = until(
            lambda: [self.acls(pod.node, pod) for pod, _ in self._had],
            lambda now: all(one != had for one, (_, had) in zip(now, self._had, strict=True)),
            within=patience.policy_effect,
            every=patience.poll_every,
            description="the ACL lists are others",
            clock=self.expect.clock,
        )
        pairs = [(pod, had, now) for (pod, had), now in zip(self._had, settled.last, strict=True)]
        shown = "\n\n".join(f"{pod.label}\n{_difference(had, now)}" for pod, had, now in pairs)
        self.expect.context.attach("ACL lists", shown)
        wrong: list[Nonconformance] = []
        for pod, had, now in pairs:
            verdict, reason = ClaimVerdict.CONFIRMED, because
            if had == now:
                error = Nonconformance(
                    f"{', '.join(self.expect.context.claims) or 'no claim'}  HNS endpoint of {pod.label}  expected "
                    f"another ACL list, observed the same {counted(len(had), 'rule')} "
                    f"({counted(len(settled.seen), 'try', 'tries')}, {settled.seconds:.1f} s)\n  because  {because}\n"
                    "  do       compare Get-HnsEndpoint before and after, and read Felix' log on that node\n"
                    f"  the lists, - before and + after:\n{shown}"
                )
                wrong.append(error)
                verdict, reason = ClaimVerdict.VIOLATED, str(error)
            self.expect.context.decided(None, pod, verdict, reason, "read")
        if wrong:
            raise wrong[0]


def _difference(had: Rules, now: Rules) -> str:
    """Both lists, a rule a line: ``-`` before only, ``+`` after only."""
    return "\n".join(
        line.rstrip() for line in ndiff([str(one) for one in had], [str(one) for one in now]) if line[0] != "?"
    )
