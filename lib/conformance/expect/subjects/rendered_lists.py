# SPDX-License-Identifier: Apache-2.0
"""Expectations about the content of Windows pods' ACL lists: Felix' rules of the policies that
select each pod."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.errors import Nonconformance
from conformance.expect.check import Judged, Ruling
from conformance.expect.guard import unless_changed
from conformance.expect.subject import Subject
from conformance.expect.subjects.witnesses import Acls
from conformance.model.counted import counted
from conformance.model.endpoint import Workload
from conformance.model.explanation import Explanation
from conformance.pods.groups import Group
from conformance.policy.acl_differences import Difference, compare, observed_list
from conformance.policy.acl_list import HnsRule

Expected = Callable[[Workload], Sequence[tuple[HnsRule, ...]]]
"""The function that returns the ACL lists that Felix may give HNS for a pod now, the likeliest list
first."""
NAMED = 6
"""The number of differences that a message names."""


@dataclass
class RenderedLists(Subject):
    """The expectation that HNS has the ACL lists that Felix renders from the cluster's policies."""

    acls: Acls
    expected: Expected

    def held(self, pods: Group, *, because: str) -> None:
        """Expect HNS to hold the rules of the policies that select each pod, and no other rules.

        A difference counts only if two reads, ``hns_looks`` apart, show it.
        """

        def judge(pod: Workload) -> Judged:
            found = self._compared(pod)
            if found:
                self.expect.clock.sleep(self.expect.timings.run.hns_looks)
                again = self._compared(pod)
                found = tuple(one for one in again if one in found)
            if not found:
                return f"{because}, as the list of {pod.label} shows"
            return self._differs(pod, found, because)

        self.check("behaviour", [(None, pod, pod) for pod in pods], judge)

    def _compared(self, pod: Workload) -> tuple[Difference, ...]:
        """Return the differences between HNS' list and the expected list that fits best: rules that
        HNS lacks, and additional rules."""
        observed = observed_list(self.acls(pod.node, pod))
        return min((compare(each, observed) for each in self.expected(pod)), key=len)

    def _differs(self, pod: Workload, found: tuple[Difference, ...], because: str) -> Ruling:
        first, *others = map(str, found)
        seconds = self.expect.timings.run.hns_looks
        lines = {"because": because} | {
            f"also {place}": text for place, text in enumerate(others[:NAMED], start=1)
        }
        if len(others) > NAMED:
            lines["more"] = counted(len(others) - NAMED, "difference")
        lines["do"] = (
            f"compare Get-HnsEndpoint of {pod.address} on node {pod.node} with the policy, "
            "and read Felix' log there"
        )
        text = Explanation(
            claims=self.expect.context.claims,
            path=f"HNS endpoint of {pod.label}",
            expected="Felix' rules of the policies that select the pod",
            observed=f"{first}, in two readings {seconds:g} s apart",
            where=f"a pod on {pod.node}",
            lines=lines,
        )
        error = unless_changed(self.expect, [pod], Nonconformance(text))
        return Ruling(error=error, symptom=("Felix' rules", first))
