# SPDX-License-Identifier: Apache-2.0
"""Why names do not resolve, or late: what a pod hears from its resolver's server and from each DNS pod, given time.

It decides nothing.  It is asked when an expectation about a name has failed, so that the message can tell a server that
is slow from one that is silent, and name the pod.
"""

from collections.abc import Callable, Sequence
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
"""What to do about a name that the cluster's DNS does not know."""
COMPARE = (
    "compare the answer with kubectl get service,endpointslices of that namespace,"
    " and read CoreDNS' log in kube-system"
)
"""What to do where nothing more is known."""
LONGER = 3
"""So many times as long as usual a source waits here: resolvers that send their question again give up before."""


@dataclass(frozen=True)
class Heard:
    """What one source heard from the cluster's DNS when it waited longer."""

    server: Observation
    """By the pod's own resolver settings; where a server was named, from that one."""
    pods: tuple[Observation, ...]
    """From each DNS pod by its own address."""
    slow: float
    """s.  An answer that takes longer is slow."""

    @property
    def answered_late(self) -> bool:
        """Whether the server is slow and not silent."""
        return _answers(self.server) and self.server.seconds > self.slow

    @property
    def answered(self) -> bool:
        """Whether the server answers in time, another name than the one that failed."""
        return _answers(self.server) and not self.answered_late

    @property
    def silent(self) -> list[Workload]:
        """The DNS pods that do not answer, where others do."""
        silent = [pod for seen in self.pods if not _answers(seen) for pod in _pods(seen)]
        return silent if len(silent) < len(self.pods) else []

    @property
    def named_silent(self) -> str:
        """They, as messages name them; empty: none, or all of them."""
        return ", ".join(pod.label for pod in self.silent)

    @property
    def lines(self) -> dict[str, str]:
        """For a message: what was heard, and what to do about it."""
        patience = f"waiting up to {self.server.attempt.give_up_after:g} s"
        told = {
            "asked again": f"{patience}: {self.server.attempt.query} {self._told(self.server, 'is answered')}"
        }
        if self.pods:
            told["DNS pods"] = "; ".join(
                f"{pod.label} {self._told(seen)}" for seen in self.pods for pod in _pods(seen)
            )
        return {**told, "do": self._advice()}

    def _told(self, seen: Observation, answers: str = "answers") -> str:
        if _answers(seen):
            slow = ", slow" if seen.seconds > self.slow else ""
            return f"{answers} after {seen.seconds:.2f} s{slow}"
        return f"fails: {seen.detail or seen.verdict} ({seen.seconds:.1f} s)"

    def _advice(self) -> str:
        node = self.server.attempt.source.node
        if self.silent:
            return f"the Service leads a share of all questions to {self.named_silent}: look at its log and node"
        if self.answered_late:
            return f"look at the load of the DNS pods, and for loss between node {node} and their nodes"
        if self.pods and not any(map(_answers, self.pods)):
            return f"no DNS pod answers: look at the network and at policies between node {node} and their nodes"
        if self.pods and not _answers(self.server):
            return f"each DNS pod answers by its own address: look at kube-proxy of node {node}, and at policies"
        return SEARCHED if self.answered else COMPARE


def listen(
    asks: Asks, attempts: Sequence[Attempt], servers: Callable[[], ClusterDns | None]
) -> dict[str, Heard]:
    """What the sources of these attempts hear, by the attempts' labels; empty where it could not be found out."""
    known = servers()
    if known is None or not attempts:
        return {}
    try:
        pods = known.pods()
    except SuiteError:  # no right to read them, or nobody knows them
        pods = []
    asked = [
        [_question(asks, attempt, known), *_at_pods(asks, attempt, known, pods)]
        for attempt in attempts
    ]
    try:
        seen = iter(asks.prober.observe([question for several in asked for question in several]))
    except SuiteError:
        return {}
    found = {}
    for attempt, several in zip(attempts, asked, strict=True):
        server, *others = [next(seen) for _ in several]
        found[attempt.label] = Heard(
            server, tuple(others), asks.timings.of(attempt.source.os).dns_slow
        )
    return found


def telling_otherwise(
    asks: Asks,
    attempt: Attempt,
    right: Callable[[Observation], bool],
    servers: Callable[[], ClusterDns | None],
) -> dict[str, str]:
    """DNS pods that answer a question wrongly while others answer it rightly, each with what it answers.

    They are asked for the name as it was asked for, without a search list.
    """
    known = servers()
    if known is None or attempt.target is not None:
        return {}
    try:
        seen = asks.prober.observe([replace(attempt, target=pod) for pod in known.pods()])
    except SuiteError:
        return {}
    wrong = {
        pod.label: message.summary([one]) for one in seen if not right(one) for pod in _pods(one)
    }
    return wrong if len(wrong) < len(seen) else {}


def _question(asks: Asks, attempt: Attempt, servers: ClusterDns) -> Attempt:
    """One question and no search list: where each name of a list waits for itself, the sum says nothing."""
    patience = LONGER * asks.timings.of(attempt.source.os).dns_give_up
    return replace(attempt, query=servers.known_name, record="A", give_up_after=patience)


def _at_pods(
    asks: Asks, attempt: Attempt, servers: ClusterDns, pods: Sequence[Target]
) -> list[Attempt]:
    if attempt.target is not None:
        return []
    return [replace(_question(asks, attempt, servers), target=pod) for pod in pods]


def _answers(seen: Observation) -> bool:
    return seen.verdict in (Verdict.RESOLVED, Verdict.NO_SUCH_NAME)


def _pods(seen: Observation) -> tuple[Workload, ...]:
    return seen.attempt.target.backends if seen.attempt.target else ()
