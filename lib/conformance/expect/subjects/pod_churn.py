# SPDX-License-Identifier: Apache-2.0
"""Expectations about pods that come and go on a node, and about the pods that come next."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from conformance.errors import EnvironmentBroken, Nonconformance, first_line
from conformance.expect.check import Judged, Ruling
from conformance.expect.subject import Subject
from conformance.expect.subjects.known_issue import KnownIssue
from conformance.model.counted import counted
from conformance.model.endpoint import Pair, Target, Workload
from conformance.model.facts import NodeFacts
from conformance.pods.deploy import Pods
from conformance.pods.groups import Group
from conformance.pods.newcomers import Newcomers
from conformance.pods.pause_pods import PausePods
from conformance.pods.roles import ECHO_PORT
from conformance.pods.starting import verdict_on
from conformance.verdicts.meaning import of_chance

PODS = 10
"""Pods that come and go at once."""


@dataclass
class PodChurn(Subject):
    """The pods of a test that come and go."""

    pods: Pods
    newcomers: Newcomers
    known: KnownIssue

    def may_be_refused(self, nodes: Sequence[str], *, times: int, because: str) -> None:
        """Record whether a node's network plugin refuses one of ten pods that come to it at once
        and go again, ``times`` times.

        The nodes have their pods side by side. Raise EnvironmentBroken for a pod that does not
        start for another reason, or does not go.
        """
        there = [node for node in self.pods.facts.nodes if node.name in nodes]
        self.pods.prepare(self.pods.namespace)
        with ThreadPoolExecutor(max_workers=len(there)) as threads:
            waits = [threads.submit(self._come_and_go, node, times) for node in there]

        def judge(place: int) -> Judged:
            words = waits[place].result()
            went = f"{PODS} pods came and went {counted(times, 'time')}: {because}"
            return Ruling(words or went, of_chance(bool(words)))

        self.check("behaviour", [(None, node, n) for n, node in enumerate(there)], judge)

    def next_may_fail(
        self, servers: Group, *, client: Workload, name: Target, because: str
    ) -> None:
        """Record whether a new pod beside each of these servers has no network: it is not ready,
        ``client`` does not reach it, or it does not reach ``name``.

        The servers that are there are the witnesses.
        """
        new: list[Workload] = []

        def judge(server: Workload) -> Judged:
            try:
                new.extend(self.newcomers.twins(Group([server])))
            except EnvironmentBroken as error:
                there = self.pods.kube.objects("v1", "Pod", self.pods.namespace)
                events = self.pods.changes.waits.events
                verdict = verdict_on(there, error, self.expect.context.claims, because, events)
                if not isinstance(verdict, Nonconformance):
                    return verdict
                return Ruling(first_line(verdict), of_chance(True))
            return Ruling(f"the next pod started: {because}", of_chance(False))

        self.check("behaviour", [(None, server, server) for server in servers], judge)
        if new:
            beside = _both_ways(servers, client, name)
            self.known.paths_may_fail(_both_ways(new, client, name), beside=beside, because=because)

    def _come_and_go(self, node: NodeFacts, times: int) -> str:
        """Return the plugin's words about a pod that it refused; empty: it refused none."""
        pause = PausePods(self.pods, f"churn-{node.name}")
        try:
            for _ in range(times):
                if words := pause.come(node, PODS)[1]:
                    return words
                pause.remove()
        finally:
            pause.remove()
        return ""


def _both_ways(pods: Sequence[Workload], client: Workload, name: Target) -> list[Pair]:
    return [pair for pod in pods for pair in ((client, pod.tcp(ECHO_PORT)), (pod, name))]
