# SPDX-License-Identifier: Apache-2.0
"""The pods that worlds (sets of policies) select, called seats, and bystanders, which no world
selects. Each worker has its own pods, made on first use.

Each covered node has one seat in each of two namespaces, and one bystander in a third.
"""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import product

from conformance.errors import SuiteError
from conformance.model.decision import Decision
from conformance.model.endpoint import Workload
from conformance.model.facts import NodeFacts
from conformance.pods.deploy import Pods, Wish
from conformance.pods.placement import Placement
from conformance.pods.pod_changes import changed_among
from conformance.pods.starting import decision_on_failure
from conformance.policy import worlds
from conformance.policy.worlds import SPACES, TWIN, Seat

BYSTANDERS = "c"
"""The name of the space whose pods no world selects."""
NEWEST = 5
"""The number of newest worlds from which the latency of policies is estimated. Older worlds do not
count, so that a slow moment of the machine has no lasting effect."""


class Seats:
    """The seats of a worker."""

    def __init__(self, deployer: Pods, placement: Placement) -> None:
        self._deployer = deployer
        self._placement = placement
        self._wishes: dict[tuple[str, str], Wish] = {}
        """The requests for pods, keyed by space and node."""
        self._pods: dict[tuple[str, str], Workload] = {}
        self._failed: dict[str, tuple[NodeFacts, SuiteError]] = {}
        """The nodes without seats, by name, each with its error."""
        self.members: dict[str, Seat] = {}
        """The seat of each node's member, by node. The member is the pod to which a story's events
        happen. Empty outside stories."""
        self.member_pods: dict[str, Workload] = {}
        """The pod of each node's member, by node."""
        self.with_twins = False
        """True while a story runs: then the members' twins count as seats."""
        self.at_rest = False
        """True if the path between every pair of seats was open after the last world ended."""
        self.latencies = deque[float](maxlen=NEWEST)
        """For each of the newest worlds, the longest time, in seconds, that its policies took to
        close a path between these seats."""

    @property
    def latency(self) -> float:
        """Return the longest time, in seconds, that the policies of a recent world took to close a
        path."""
        return max(self.latencies, default=0.0)

    @property
    def namespaces(self) -> dict[str, str]:
        """Return the name of each space's namespace, the bystanders' included."""
        return {
            space: f"{self._deployer.namespace}-world-{space}" for space in (*SPACES, BYSTANDERS)
        }

    @property
    def seats(self) -> tuple[Seat, ...]:
        """Return all seats; seats of the same kind are in the order of their nodes."""
        own = tuple(
            Seat(_space(space), pod.os, node, pod.pod, pod.address, twin=space == TWIN)
            for (space, node), pod in self._pods.items()
            if space in SPACES or (space == TWIN and self.with_twins)
        )
        return (*own, *self.members.values())

    @property
    def bystanders(self) -> dict[str, Workload]:
        """Return the bystander of each node, by node."""
        return {node: pod for (space, node), pod in self._pods.items() if space == BYSTANDERS}

    def pod(self, seat: Seat) -> Workload:
        """Return the pod of a seat."""
        space = TWIN if seat.twin else seat.space
        return self.member_pods[seat.node] if seat.member else self._pods[space, seat.node]

    def taken(self) -> list[Decision]:
        """Deploy the seats, or renew seats whose pods changed. Return a decision for each node
        without seats, with the reason.

        If no node of an operating system has seats, raise the first pod's error. If the cluster has
        no node of this operating system, raise MissingCapability.
        """
        nodes = [*self._placement.covered("linux"), *self._placement.covered("windows")]
        if not self._wishes:
            self._prepare()
            with ThreadPoolExecutor(max_workers=16) as pool:
                list(pool.map(self._deploy, nodes))
            self._pods = {
                key: self._pods[key]
                for key in product((*SPACES, BYSTANDERS), [node.name for node in nodes])
                if key in self._pods and key[1] not in self._failed
            }
        for os in worlds.SYSTEMS:
            if not any(pod.os == os for pod in self._pods.values()):
                raise next(error for node, error in self._failed.values() if node.os == os)
        self._again()
        return [decision_on_failure(node, error) for node, error in self._failed.values()]

    def meet_twins(self) -> None:
        """Deploy a twin on each node with seats, on first use. Raise the errors of pods that do not
        start."""
        wishes = {
            (TWIN, node.name): self._wish(TWIN, node)
            for node in (*self._placement.covered("linux"), *self._placement.covered("windows"))
            if (SPACES[0], node.name) in self._pods and (TWIN, node.name) not in self._pods
        }
        pods = self._deployer.deploy(list(wishes.values())) if wishes else {}
        self._wishes.update(wishes)
        self._pods.update({key: pods[wish.called] for key, wish in wishes.items()})
        self.with_twins = True

    def _prepare(self) -> None:
        for space, name in self.namespaces.items():
            self._deployer.prepare(name, worlds.NAMESPACE_LABELS.get(space))
        for space in SPACES:
            account = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": worlds.ACCOUNT, "labels": worlds.ACCOUNT_LABELS[space]},
            }
            self._deployer.changes.apply(
                account,
                "some pods of policy tests run as this account",
                namespace=self.namespaces[space],
            )

    def _deploy(self, node: NodeFacts) -> None:
        """Deploy the pods of a node's seats, and its bystander."""
        wishes = {(space, node.name): self._wish(space, node) for space in self.namespaces}
        self._wishes.update(wishes)
        try:
            pods = self._deployer.deploy(list(wishes.values()))
        except SuiteError as error:
            self._failed[node.name] = (node, error)
            return
        self._pods.update({key: pods[wish.called] for key, wish in wishes.items()})

    def _wish(self, space: str, node: NodeFacts) -> Wish:
        return Wish(
            role=f"{node.os}-seat",
            node=node,
            name=f"{space}-{node.os}-{self._placement.number(node.name)}",
            labels={} if space == BYSTANDERS else worlds.SEAT | worlds.SEAT_LABELS[space, node.os],
            namespace=self.namespaces[_space(space)],
            account=worlds.ACCOUNT if (space, node.os) in worlds.SEATS_OF_ACCOUNT else "",
        )

    def _again(self) -> None:
        """Deploy a new pod for each of these seats whose pod is gone or was replaced."""
        if self._deployer.changes.dry_run:
            return
        wrong = changed_among(self._deployer.kube, self._pods.values())
        for key, pod in self._pods.items():
            if pod.uid in wrong:
                self.at_rest = False
                self._pods[key] = self._deployer.again(self._wishes[key], wrong[pod.uid])


def _space(space: str) -> str:
    """Return the space that contains a seat; twins are in the first space."""
    return SPACES[0] if space == TWIN else space
