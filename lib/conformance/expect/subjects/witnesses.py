# SPDX-License-Identifier: Apache-2.0
"""Witnesses, which show that a change took effect. Without a witness, the absence of an effect
shows nothing.

A witness that cannot decide raises ControlBroken.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from difflib import ndiff
from typing import Protocol

from conformance.errors import ControlBroken, Nonconformance, UsageProblem
from conformance.expect.case import Row, rows_of
from conformance.expect.check import Check, Judged, Ruling
from conformance.expect.explain import message
from conformance.expect.guard import unless_changed
from conformance.expect.path_decisions import Policies
from conformance.expect.subject import Subject
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.endpoint import Workload
from conformance.model.explanation import Explanation
from conformance.model.host import AclRule
from conformance.model.restart import Restart
from conformance.model.stream import StreamState
from conformance.timing import until

Rules = tuple[AclRule, ...]
Acls = Callable[[str, Workload], Rules]
"""A function that returns the access rules that HNS has now for a pod's endpoint on a node. Raises
ProbeBroken."""


class Witness(Protocol):
    """Something that the change must alter, which shows that the change took effect."""

    def after(self) -> str:
        """Wait for the effect, and return a description of the effect. Raise ControlBroken if the
        effect does not come in time."""


@dataclass
class Opens(Subject):
    """A witness: paths that policies close and that a change opens, on the node of each pod that
    the test is about."""

    rows: Sequence[Row] = ()
    """The rows that the change opens."""

    def closed_by(self, *policies_and_rows: Policies | Row) -> None:
        """Expect policies to close all paths of the rows, and to leave each source an open path.
        The rules for denials apply: all paths are open before, and a lost packet is no denial."""
        with self._witness("before the change"):
            self.expect.under(*policies_and_rows)

    def after(self) -> str:
        began = self.expect.clock.monotonic()
        pairs = list(rows_of(self.rows))
        with self._witness("after the change"):
            self.expect.control(pairs, because="the change opens this path")
        seconds = self.expect.clock.monotonic() - began
        return f"{counted(len(pairs), 'path')} opened {seconds:.2f} s after the change"

    @staticmethod
    @contextmanager
    def _witness(when: str) -> Iterator[None]:
        try:
            yield
        except ControlBroken as failed:
            so = "without this control nothing shows that the change took effect"
            text: str | Explanation = f"{message.of_control(str(failed), when)}: {so}"
            if failed.explanation:
                explanation = message.of_control(failed.explanation, when)
                text = replace(explanation, lines=explanation.lines | {"why": so})
            raise ControlBroken(
                text, control="witness", observations=failed.observations
            ) from failed


@dataclass(frozen=True)
class Restarted:
    """A witness: the restart of Felix on a node."""

    restart: Restart

    def after(self) -> str:
        """Wait until the restarted Felix has applied everything once, so that its pod is ready
        (win_dataplane.go, doneFirstApply)."""
        restart = self.restart
        more = f"; {restart.note}" if restart.note else ""
        return f"Felix on node {restart.node} restarted in {restart.seconds:.2f} s, {restart.before} -> {restart.after}{more}"


@dataclass
class AclLists(Subject):
    """Expectations about the ACL lists of Windows pods' endpoints.

    Lists are compared with all contents of their rules: Felix' ids do not distinguish a list from
    the same list written again.
    """

    acls: Acls
    _had: tuple[tuple[Workload, Rules], ...] = ()

    def remember(self, *pods: Workload) -> None:
        """Read the lists of these pods before a change."""
        self._had = tuple((pod, self.acls(pod.node, pod)) for pod in pods)

    def replaced(self, streams: Sequence[StreamState], *, because: str) -> None:
        """Expect each list to have changed since it was read: such a change explains the loss of
        the pod's ``streams``.

        ``streams``: the streams of these pods after the change; each direction is decided
        separately. A pod that lost no stream is NOT_OBSERVED, since there is no loss to explain.
        """
        if not self._had:
            raise UsageProblem("no ACL lists to compare: call remember(...) before the change")
        patience = self.expect.timings.windows
        settled = until(
            lambda: [self.acls(pod.node, pod) for pod, _ in self._had],
            lambda now: all(rules != had for rules, (_, had) in zip(now, self._had, strict=True)),
            within=patience.policy_effect,
            every=patience.poll_every,
            description="the ACL lists change",
            clock=self.expect.clock,
            more=self.expect.context.pace.machine.more,
        )
        pairs = [(pod, had, now) for (pod, had), now in zip(self._had, settled.last, strict=True)]
        shown = "\n\n".join(f"{pod.label}\n{_difference(had, now)}" for pod, had, now in pairs)
        self.expect.context.sink.attach("ACL lists", shown)

        def judge(case: tuple[Workload, Rules, Rules, list[StreamState]]) -> Judged:
            pod, had, now, own = case
            lost = next((state for state in own if state.lost), None)
            if had == now:
                after = f", while a stream was lost ({lost.label}: {lost.words})" if lost else ""
                do = f"compare Get-HnsEndpoint before and after, and read Felix' log on node {pod.node}"
                text = Explanation(
                    claims=self.expect.context.claims,
                    path=f"HNS endpoint of {pod.label}",
                    expected="another ACL list",
                    observed=f"the same {counted(len(had), 'rule')}{after}",
                    tries=len(settled.observations),
                    seconds=settled.seconds,
                    where=f"a pod on {pod.node}",
                    lines={"because": because, "do": do},
                    table=f"  the lists, - before and + after:\n{shown}",
                )
                return unless_changed(self.expect, [pod], Nonconformance(text))
            if lost:
                return f"{because}; with it {lost.label} was lost: {lost.words}"
            statement = f"{pod.label} has another ACL list, and none of its {len(own)} streams was lost with it"
            return Ruling(statement, ClaimVerdict.NOT_OBSERVED)

        with ExitStack() as checks:
            for direction in dict.fromkeys(state.direction for state in streams):
                context = self.expect.context.of_part(direction)
                of_it = [state for state in streams if state.direction == direction]
                cases = [(*pair, _of_pod(pair[0], of_it)) for pair in pairs]
                checks.enter_context(Check(context, "behaviour")).each(
                    [(None, case[0], case) for case in cases if case[-1]], judge
                )

    def shorter(self, *, because: str) -> None:
        """Expect the lists of each node to have fewer entries in total than when they were first
        read. An entry is a pair of addresses that a rule matches. Rules without addresses, and
        rules that are still in the list, do not count. Raise Nonconformance if a node's number of
        entries has not fallen or is 0, and ProbeBroken if the lists cannot be read."""
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
            times = f" (factor {before / after:.1f})" if after else ""
            statement = (
                f"{counted(before, 'ACL entry', 'ACL entries')} before and {after} now{times}"
            )
            if before > after > 0:
                return f"{because}: {statement}, on node {node}"
            text = Explanation(
                claims=self.expect.context.claims,
                path=f"ACL lists of {counted(len(lists), 'pod')} on node {node}",
                expected="fewer entries than before",
                observed=statement,
                where=node,
                lines={"because": because, "do": "compare Get-HnsEndpoint under both policies"},
                table="\n\n".join(["  the lists, - before and + after:", *shown]),
            )
            error = unless_changed(self.expect, [pod for pod, *_ in lists], Nonconformance(text))
            return Ruling(error=error, symptom=("fewer ACL entries", f"{after} of {before}"))

        self.check("behaviour", [(None, lists[0][0], lists) for lists in by_node.values()], judge)


def _of_pod(pod: Workload, streams: Sequence[StreamState]) -> list[StreamState]:
    """Return the streams of which a pod is an end."""
    return [state for state in streams if pod.uid in {end.workload.uid for end in state.ends}]


def _entries(rules: Rules, others: Rules) -> int:
    """Return the number of address pairs in the rules that the other list does not have."""
    return sum(
        max(1, len(rule.local_addresses.split(","))) * max(1, len(rule.remote_addresses.split(",")))
        for rule in rules
        if rule not in others and (rule.local_addresses or rule.remote_addresses)
    )


def _difference(had: Rules, now: Rules) -> str:
    """Return both lists as text with one rule per line; ``-``: only in the list before, ``+``: only
    in the list after."""
    return "\n".join(
        line.rstrip()
        for line in ndiff([str(acl_rule) for acl_rule in had], [str(acl_rule) for acl_rule in now])
        if line[0] != "?"
    )
