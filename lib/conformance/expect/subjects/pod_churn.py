# SPDX-License-Identifier: Apache-2.0
"""Expectations about pods that are created and deleted on a node, and about the pod that is created
next."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from conformance.errors import EnvironmentBroken, MissingCapability, Nonconformance, first_line
from conformance.expect.check import Judged, Ruling
from conformance.expect.subject import Subject
from conformance.expect.subjects.known_issue import KnownIssue
from conformance.model.endpoint import Pair, Target, Workload
from conformance.model.facts import Fact
from conformance.pods.deploy import Pods
from conformance.pods.groups import Group
from conformance.pods.newcomers import Newcomers
from conformance.pods.pause_pods import PausePods
from conformance.pods.roles import ECHO_PORT
from conformance.pods.starting import verdict_on
from conformance.verdicts.meaning import of_chance

PODS = 10
TIMES = 2
"""PODS: the number of pods that are created and deleted at once. TIMES: the number of times that
these pods are created and deleted."""
LEFT = 5
"""The number of pods of other owners for which a node must still have room during the test."""


@dataclass
class PodChurn(Subject):
    """The expectations of a test that creates and deletes pods."""

    pods: Pods
    newcomers: Newcomers
    known: KnownIssue
    room: Mapping[str, int]
    """The number of pods that nodes can still take, by node. For nodes that are left out, the
    number is not known."""

    def may_leave_traces(
        self,
        servers: Group,
        *,
        client: Workload,
        name: Target,
        left: Callable[[str], Fact[bool]],
        because: str,
    ) -> None:
        """Create ten pods on the node of each server and delete them, twice; then start another
        pod.

        The known issue has happened on a node if the network plugin refuses a pod, if the last pod
        has no network, or if something is ``left`` of the deleted pods. It has also happened if
        ``client`` does not reach the last pod, or if the last pod does not reach ``name``, while
        the same paths to and from the node's server connect.

        Raise MissingCapability if a node has little room beside these pods, EnvironmentBroken for a
        pod that does not start for another reason, or that is not deleted.
        """
        self._leave_room(servers)
        self.pods.prepare(self.pods.namespace)
        with ThreadPoolExecutor(max_workers=len(servers)) as threads:
            words = dict(zip(servers, threads.map(self._come_and_go, servers), strict=True))
        new: list[Workload] = []

        def judge(server: Workload) -> Judged:
            found = words[server] or self._next(server, new, because)
            traces = left(server.node)
            found = found or (traces.source if traces.value else "")
            return Ruling(
                found
                or f"{PODS} pods were created and deleted {TIMES} times, and the next pod started: "
                f"{because}",
                of_chance(bool(found)),
            )

        self.check("behaviour", [(None, server, server) for server in servers], judge)
        if new:
            beside = _both_ways(servers, client, name)
            self.known.paths_may_fail(_both_ways(new, client, name), beside=beside, because=because)

    def _leave_room(self, servers: Group) -> None:
        """Raise MissingCapability if the test's pods would leave too little room for other owners'
        pods on a node."""
        for node in (server.node for server in servers if server.node in self.room):
            if self.room[node] < PODS + LEFT:
                raise MissingCapability(
                    f"node {node} has room for {self.room[node]} more pods; {PODS} test pods would "
                    f"leave other owners room for fewer than {LEFT}",
                    "free addresses there, or cover another node",
                )

    def _next(self, server: Workload, new: list[Workload], because: str) -> str:
        """Create the next pod on a server's node, and add it to ``new``. Return the reason why the
        pod has no network, or an empty string if it is ready.

        Raise EnvironmentBroken if the pod is not ready for another reason.
        """
        try:
            new.extend(self.newcomers.twins(Group([server])))
        except EnvironmentBroken as error:
            verdict = verdict_on(
                self.pods.kube.objects("v1", "Pod", self.pods.namespace),
                error,
                self.expect.context.claims,
                because,
                self.pods.changes.waits.events,
            )
            if not isinstance(verdict, Nonconformance):
                raise verdict from error
            return first_line(verdict)
        return ""

    def _come_and_go(self, server: Workload) -> str:
        """Create and delete pods on a server's node. Return the network plugin's message about a
        pod that it refused, or an empty string if it refused none."""
        pause = PausePods(self.pods, f"churn-{server.node}")
        node = next(node for node in self.pods.facts.nodes if node.name == server.node)
        try:
            for _ in range(TIMES):
                if words := pause.come(node, PODS)[1]:
                    return words
                pause.remove()
        finally:
            pause.remove()
        return ""


def _both_ways(pods: Sequence[Workload], client: Workload, name: Target) -> list[Pair]:
    return [pair for pod in pods for pair in ((client, pod.tcp(ECHO_PORT)), (pod, name))]
