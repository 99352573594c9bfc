# SPDX-License-Identifier: Apache-2.0
"""Witnesses that a change took effect: without one, what did not happen after it says nothing.

One that cannot testify raises ControlBroken.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import ndiff
from typing import Protocol

from conformance.errors import ControlBroken, Nonconformance, UsageProblem
from conformance.expect.check import Judged, Ruling
from conformance.expect.explain import message
from conformance.expect.guard import unless_changed
from conformance.expect.subject import Subject
from conformance.expect.traffic import Policies
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.endpoint import Pair, Workload
from conformance.model.explanation import Explanation
from conformance.model.host import AclRule
from conformance.model.stream import StreamState
from conformance.timing import until

Rules = tuple[AclRule, ...]
Acls = Callable[[str, Workload], Rules]
"""The access rules of a pod's endpoint on a node, as HNS has them now; raises ProbeBroken."""


class Witness(Protocol):
    """Something that a change changes."""

    def after(self) -> str:
        """See it changed; returns what was seen.  Raises ControlBroken when it does not change in time."""


@dataclass(frozen=True, kw_only=True)
class Restart:
    """A restart of Felix that was seen to happen."""

    node: str
    before: str
    """Pod, when it started, and its restarts."""
    after: str
    seconds: float
    """From the deletion to readiness."""
    note: str = ""
    """What else was seen: a node that was not Ready meanwhile, why the pod was deleted."""


@dataclass
class Opens(Subject):
    """Paths that policies close and that a change opens: both are the policy's work, on every subject's node."""

    pairs: Sequence[Pair]

    def closed_by(
        self, policies: Sequence[Policies], *, beside: Sequence[Pair], because: str
    ) -> None:
        """``policies`` close all of them; ``beside``, an open path of each source, stays open.

        Decided as every denial is: all are seen open before, and a lost packet is none.
        """
        with self._witness("before the change"):
            self.expect.under(*policies, open=[beside], closed=[self.pairs], because=because)

    def after(self) -> str:
        began = self.expect.clock.monotonic()
        with self._witness("after the change"):
            self.expect.controls([self.pairs], because="the change opens this path")
        seconds = self.expect.clock.monotonic() - began
        return f"{counted(len(self.pairs), 'route')} opened by it {seconds:.2f} s after it"

    @staticmethod
    @contextmanager
    def _witness(when: str) -> Iterator[None]:
        try:
            yield
        except ControlBroken as failed:
            so = "without this control nothing shows that the change took effect"
            text: str | Explanation = f"{message.of_control(str(failed), when)}: {so}"
            if failed.explanation:
                told = message.of_control(failed.explanation, when)
                text = replace(told, lines=told.lines | {"why": so})
            raise ControlBroken(text, control="witness", seen=failed.seen) from failed


@dataclass(frozen=True)
class Restarted:
    """Felix of one node, as its restart was seen."""

    restart: Restart

    def after(self) -> str:
        """Another Felix has applied everything once: its pod is ready (win_dataplane.go, doneFirstApply)."""
        seen = self.restart
        more = f"; {seen.note}" if seen.note else ""
        return f"Felix on node {seen.node} restarted in {seen.seconds:.2f} s, {seen.before} -> {seen.after}{more}"


@dataclass
class AclLists(Subject):
    """Expectations about the ACL lists of Windows pods' endpoints.

    Lists are compared with all that their rules say: the ids that Felix gives tell no list from the same given anew.
    """

    acls: Acls
    _had: tuple[tuple[Workload, Rules], ...] = ()

    def remember(self, *pods: Workload) -> None:
        """Read them before a change."""
        self._had = tuple((pod, self.acls(pod.node, pod)) for pod in pods)

    def replaced(self, streams: Sequence[StreamState], *, because: str) -> None:
        """Each of them says something else since they were read, and so explains the loss of the pod's ``streams``.

        ``streams``: those of these pods, as the change left them.  Where none of a pod's was lost, there is nothing to
        explain: NOT_OBSERVED.
        """
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
            more=self.expect.context.pace.machine.more,
        )
        pairs = [(pod, had, now) for (pod, had), now in zip(self._had, settled.last, strict=True)]
        shown = "\n\n".join(f"{pod.label}\n{_difference(had, now)}" for pod, had, now in pairs)
        self.expect.context.sink.attach("ACL lists", shown)

        def judge(case: tuple[Workload, Rules, Rules]) -> Judged:
            pod, had, now = case
            own = [
                stream for stream in streams if pod.uid in {end.workload.uid for end in stream.ends}
            ]
            lost = next((state for state in own if state.lost), None)
            if had == now:
                after = f", while a stream was lost ({lost.label}: {lost.words})" if lost else ""
                do = f"compare Get-HnsEndpoint before and after, and read Felix' log on node {pod.node}"
                text = Explanation(
                    claims=self.expect.context.claims,
                    path=f"HNS endpoint of {pod.label}",
                    expected="another ACL list",
                    observed=f"the same {counted(len(had), 'rule')}{after}",
                    tries=len(settled.seen),
                    seconds=settled.seconds,
                    where=f"a pod on {pod.node}",
                    lines={"because": because, "do": do},
                    table=f"  the lists, - before and + after:\n{shown}",
                )
                return unless_changed(self.expect, [pod], Nonconformance(text))
            if lost:
                return f"{because}; with it {lost.label} was lost: {lost.words}"
            told = f"{pod.label} has another ACL list, and none of its {len(own)} streams was lost with it"
            return Ruling(told, ClaimVerdict.NOT_OBSERVED)

        self.check("behaviour", [(None, one[0], one) for one in pairs], judge)

    def shorter(self, *, because: str) -> None:
        """Together the lists of each node have fewer entries than when they were read.

        An entry is a pair of addresses that a rule matches; rules that name none, and those that a list has kept, do
        not count.  Raises Nonconformance where a node's have as many, ProbeBroken as reading them does.
        """
        by_node: dict[str, list[tuple[Workload, Rules, Rules]]] = {}
        for pod, had in self._had:
            by_node.setdefault(pod.node, []).append((pod, had, self.acls(pod.node, pod)))
        shown = [
            f"{pod.label}\n{_difference(had, now)}"
            for each in by_node.values()
            for pod, had, now in each
        ]
        self.expect.context.sink.attach("ACL lists", "\n\n".join(shown))

        def judge(lists: Sequence[tuple[Workload, Rules, Rules]]) -> Judged:
            node = lists[0][0].node
            before = sum(_entries(had, now) for _, had, now in lists)
            after = sum(_entries(now, had) for _, had, now in lists)
            times = f" ({before / after:.1f} times as many)" if after else ""
            told = f"{counted(before, 'ACL entry', 'ACL entries')} before and {after} now{times}"
            if before > after > 0:
                return f"{because}: {told}, on node {node}"
            text = Explanation(
                claims=self.expect.context.claims,
                path=f"ACL lists of {counted(len(lists), 'pod')} on node {node}",
                expected="fewer entries than before",
                observed=told,
                where=node,
                lines={"because": because, "do": "compare Get-HnsEndpoint under both policies"},
                table="\n\n".join(["  the lists, - before and + after:", *shown]),
            )
            error = unless_changed(self.expect, [pod for pod, *_ in lists], Nonconformance(text))
            return Ruling(error=error, symptom=("fewer ACL entries", f"{after} of {before}"))

        self.check("behaviour", [(None, one[0][0], one) for one in by_node.values()], judge)


def _entries(rules: Rules, others: Rules) -> int:
    """Pairs of addresses that these rules match, but those that the others have as well."""
    return sum(
        max(1, len(rule.local_addresses.split(","))) * max(1, len(rule.remote_addresses.split(",")))
        for rule in rules
        if rule not in others and (rule.local_addresses or rule.remote_addresses)
    )


def _difference(had: Rules, now: Rules) -> str:
    """Both lists, a rule a line: ``-`` before only, ``+`` after only."""
    return "\n".join(
        line.rstrip()
        for line in ndiff([str(acl_rule) for acl_rule in had], [str(acl_rule) for acl_rule in now])
        if line[0] != "?"
    )
