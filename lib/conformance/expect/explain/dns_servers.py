# SPDX-License-Identifier: Apache-2.0
"""Finds out why names resolve late or not at all: it queries a pod's own DNS server and each DNS
pod, with more time for late answers.

The answers decide nothing. They are requested after an expectation about a name has failed, so that
the message can distinguish a slow server from a silent server, and name the pod.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from conformance.errors import SuiteError
from conformance.expect.engine.names import Asks
from conformance.expect.explain import message
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.pods.cluster_dns import ClusterDns

SEARCHED = (
    "compare the pod's DNS search list (Linux: /etc/resolv.conf; Windows: ipconfig /all) with NAMESPACE.svc.DOMAIN, "
    "svc.DOMAIN and DOMAIN; Windows has only the first"
)
"""Advice about a name that the cluster's DNS does not know."""
COMPARE = (
    "compare the answer with kubectl get service,endpointslices of that namespace,"
    " and read CoreDNS' log in kube-system"
)
"""The advice if the DNS servers' answers explain nothing."""
LONGER = 3
"""The factor by which a source waits longer here than usual. Resolvers that repeat their query give
up earlier."""


@dataclass(frozen=True)
class DnsAnswers:
    """The answers that a source got from the cluster's DNS when the source waited longer."""

    server: Observation
    """The answer of the server that the attempt names, or else of the server in the pod's own
    resolver settings."""
    pods: tuple[Observation, ...]
    """The answers of the DNS pods at their own addresses."""
    slow: float
    """An answer that takes more seconds than this is slow."""
    share: bool
    """Some attempts of the same query got an answer, and other attempts got no answer."""

    @property
    def answered_late(self) -> bool:
        """Return whether the server answers, but late."""
        return _answers(self.server) and self.server.seconds > self.slow

    @property
    def answered(self) -> bool:
        """Return whether the server answers in time for a name other than the failed one."""
        return _answers(self.server) and not self.answered_late

    @property
    def silent(self) -> list[Workload]:
        """Return the DNS pods that do not answer, if other DNS pods answer."""
        silent = [
            pod
            for observation in self.pods
            if not _answers(observation)
            for pod in _pods(observation)
        ]
        return silent if len(silent) < len(self.pods) else []

    @property
    def named_silent(self) -> str:
        """Return the silent DNS pods in the words of messages. Return an empty string if no DNS pod
        is silent, or if all are silent."""
        return ", ".join(pod.label for pod in self.silent)

    @property
    def lines(self) -> dict[str, str]:
        """Return the lines of a message: the answers, and the advice."""
        patience = f"waiting up to {self.server.attempt.give_up_after:g} s"
        lines = {
            "asked again": f"{patience}: {self.server.attempt.query} {self._describe(self.server, 'is answered')}"
        }
        if self.pods:
            lines["DNS pods"] = "; ".join(
                f"{pod.label} {self._describe(observation)}"
                for observation in self.pods
                for pod in _pods(observation)
            )
        return {**lines, "do": self._advice()}

    def _describe(self, observation: Observation, answers: str = "answers") -> str:
        if _answers(observation):
            slow = ", slow" if observation.seconds > self.slow else ""
            return f"{answers} after {observation.seconds:.2f} s{slow}"
        return f"fails: {observation.detail or observation.verdict} ({observation.seconds:.1f} s)"

    def _advice(self) -> str:
        node = self.server.attempt.source.node
        if self.silent:
            return (
                f"the Service sends a share of all queries to {self.named_silent}: look at the "
                "log and the node of each pod named here"
            )
        if self.answered_late:
            return (
                f"look at the load of the DNS pods, and for packet loss between node {node} "
                "and their nodes"
            )
        if self.pods and not any(map(_answers, self.pods)):
            return f"no DNS pod answers: look at the network and at policies between node {node} and their nodes"
        if self.share:
            beside = ", while each DNS pod answers by its own address" if self.pods else ""
            return (
                f"the DNS Service has a backend on node {node} that is dead or gone{beside}: "
                "compare that node's backends (Windows: Get-HnsPolicyList) with "
                "kubectl -n kube-system get endpointslices, and restart its kube-proxy"
            )
        if self.pods and not _answers(self.server):
            return f"each DNS pod answers by its own address: look at kube-proxy of node {node}, and at policies"
        return SEARCHED if self.answered else COMPARE


def listen(
    asks: Asks,
    attempts: Sequence[Attempt],
    servers: Callable[[], ClusterDns | None],
    at_times: Collection[str],
) -> dict[str, DnsAnswers]:
    """Return the DNS answers to the sources of these attempts, by the attempts' labels. Return
    nothing if the DNS servers are not known.

    ``at_times``: labels of attempts that got an answer only sometimes.
    """
    known = servers()
    if known is None or not attempts:
        return {}
    try:
        pods = known.pods()
    except SuiteError:  # the user may not read the DNS pods, or they are not known
        pods = []
    asked = [
        [_question(asks, attempt, known), *_at_pods(asks, attempt, known, pods)]
        for attempt in attempts
    ]
    try:
        observations = iter(
            asks.prober.observe([question for questions in asked for question in questions])
        )
    except SuiteError:
        return {}
    found = {}
    for attempt, questions in zip(attempts, asked, strict=True):
        server, *others = [next(observations) for _ in questions]
        slow = asks.timings.of(attempt.source.os).dns_slow
        found[attempt.label] = DnsAnswers(server, tuple(others), slow, attempt.label in at_times)
    return found


def telling_otherwise(
    asks: Asks,
    attempt: Attempt,
    right: Callable[[Observation], bool],
    servers: Callable[[], ClusterDns | None],
) -> dict[str, str]:
    """Return the DNS pods that answer a query wrongly while other DNS pods answer it correctly,
    each with its answer.

    The query is about the failed name itself, without a search list.
    """
    known = servers()
    if known is None or attempt.target is not None:
        return {}
    try:
        observations = asks.prober.observe([replace(attempt, target=pod) for pod in known.pods()])
    except SuiteError:
        return {}
    wrong = {
        pod.label: message.summary([observation])
        for observation in observations
        if not right(observation)
        for pod in _pods(observation)
    }
    return wrong if len(wrong) < len(observations) else {}


def _question(asks: Asks, attempt: Attempt, servers: ClusterDns) -> Attempt:
    """Return a question for a known name, without a search list. With a search list, the resolver
    would wait for each name of the list, and the total time would show nothing."""
    patience = LONGER * asks.timings.of(attempt.source.os).dns_give_up
    return replace(attempt, query=servers.known_name, record="A", give_up_after=patience)


def _at_pods(
    asks: Asks, attempt: Attempt, servers: ClusterDns, pods: Sequence[Target]
) -> list[Attempt]:
    if attempt.target is not None:
        return []
    return [replace(_question(asks, attempt, servers), target=pod) for pod in pods]


def _answers(observation: Observation) -> bool:
    return observation.verdict in (Verdict.RESOLVED, Verdict.NO_SUCH_NAME)


def _pods(observation: Observation) -> tuple[Workload, ...]:
    return observation.attempt.target.backends if observation.attempt.target else ()
