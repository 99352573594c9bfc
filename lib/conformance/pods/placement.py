# SPDX-License-Identifier: Apache-2.0
"""The places of pods: usable nodes, and the pairs of nodes that a path needs. If the cluster is too
small, the error reports this."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from conformance.errors import EnvironmentBroken, MissingCapability
from conformance.kube.node_conditions import tolerated
from conformance.model.endpoint import OS
from conformance.model.facts import Facts, NodeFacts
from conformance.pods.coverage import Covered, covered
from conformance.settings import Cover, Toleration

T = TypeVar("T")
USUAL_TOLERATIONS: tuple[dict[str, str], ...] = (
    {"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"},
    {"key": "os", "operator": "Equal", "value": "Windows", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/os", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "kubernetes.azure.com/os", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "cattle.io/os", "operator": "Equal", "value": "linux", "effect": "NoSchedule"},
    {"key": "kubernetes.io/arch", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node-role.kubernetes.io/master", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node-role.kubernetes.io/controlplane", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node-role.kubernetes.io/etcd", "operator": "Exists"},
)
"""Tolerations of the taints that hybrid clusters usually have: the Kubernetes and OpenShift forms
for Windows nodes, GKE's and AKS's taints, RKE1's on Linux nodes, and those of the control plane, of
Rancher's servers and of AKS's system pool (the only Linux nodes of a small cluster)."""


def tolerations(extra: Sequence[Toleration] = ()) -> list[dict[str, str]]:
    """Return the tolerations of every pod of the suite, in the form of a pod's spec."""
    more = []
    for toleration in extra:
        entry = {
            "key": toleration.key,
            "operator": "Exists" if toleration.value is None else "Equal",
        }
        entry |= {} if toleration.value is None else {"value": toleration.value}
        entry |= {} if toleration.effect is None else {"effect": toleration.effect}
        more.append(entry)
    return [*(dict(usual_toleration) for usual_toleration in USUAL_TOLERATIONS), *more]


def firsts(items: Iterable[T], aspect: Callable[[T], str]) -> Iterable[T]:
    """Return the first item for each value of an aspect, in the order of the items."""
    found: dict[str, T] = {}
    for item in items:
        found.setdefault(aspect(item), item)
    return found.values()


class Placement:
    """Chooses nodes on one cluster. ``turn`` (the worker's number) spreads workers over the nodes
    of an OS."""

    def __init__(
        self,
        facts: Facts,
        extra: Sequence[Toleration] = (),
        turn: int = 0,
        cover: Cover | None = None,
    ) -> None:
        self._facts = facts
        self._turn = turn
        self._cover = cover or Cover()
        self._tolerations = tolerations(extra)
        self.lost: dict[str, str] = {}
        """Covered nodes that died during the run, each with the reason."""

    def usable(self, os: OS) -> tuple[NodeFacts, ...]:
        """Return the nodes that can take the suite's pods, workers before control planes, rotated
        by the worker's number.
        """
        return self._turned(self._ordered(os))

    def covered(self, os: OS) -> tuple[NodeFacts, ...]:
        """Return the nodes that the run decides on, rotated by the worker's number. Raise
        MissingCapability."""
        self.first(os)
        return self._turned([item.node for item in self.coverage(os)])

    def one_per_build(self) -> tuple[NodeFacts, ...]:
        """Return the first covered node of each Windows build, rotated by the worker's number.
        Raise MissingCapability."""
        return tuple(firsts(self.covered("windows"), lambda node: node.build))

    def coverage(self, os: OS) -> tuple[Covered, ...]:
        """Return the covered nodes of an OS with the reason for each, the same for every worker."""
        return tuple(
            item
            for item in covered(os, self._ordered(os), self._cover)
            if item.node.name not in self.lost
        )

    def number(self, node: str) -> int:
        """Return a usable node's number among the nodes of its OS. It begins with 1 and is the same
        for every worker; the names of pods and seats contain it.

        Raise MissingCapability if the node takes no pods.
        """
        for os in ("linux", "windows"):
            names = [item.name for item in self._ordered(os)]
            if node in names:
                return names.index(node) + 1
        raise MissingCapability(
            f"node {node} takes no pods",
            "uncordon the node, or name another node with --disruptive-node",
        )

    def _ordered(self, os: OS) -> tuple[NodeFacts, ...]:
        fit = [node for node in self._facts.by_os(os) if not self.unusable(node)]
        return tuple(sorted(fit, key=lambda node: node.control_plane))

    def _turned(self, nodes: Sequence[NodeFacts]) -> tuple[NodeFacts, ...]:
        ordinary = [node for node in nodes if not node.control_plane]
        turn = self._turn % len(ordinary) if ordinary else 0
        return (*ordinary[turn:], *ordinary[:turn], *(node for node in nodes if node.control_plane))

    def unusable(self, node: NodeFacts) -> str:
        """Return why a node cannot take pods, or has no Calico to judge; an empty string if it can
        be used."""
        if node.without_calico:
            return f"Calico is not meant to run on it: {node.without_calico}"
        if not node.ready:
            return f"not ready ({node.unready})" if node.unready else "not ready"
        if not node.schedulable:
            return "cordoned"
        for taint in node.taints:
            if not tolerated(taint, self._tolerations):
                key = str(taint.get("key"))
                value = f"={taint['value']}" if taint.get("value") else ""
                return f"taint {key}{value}:{taint.get('effect')} is not tolerated; to tolerate it, use --tolerate {key}"
        return ""

    def first(self, os: OS) -> NodeFacts:
        """Return a covered node of an OS. Raise MissingCapability if the cluster has none that can
        be used, EnvironmentBroken if such nodes have died during the run."""
        if found := self._turned([item.node for item in self.coverage(os)]):
            return found[0]
        reasons = [
            f"{node.name}: {why}" for node in self._facts.by_os(os) if (why := self.unusable(node))
        ]
        name = os.capitalize()
        if lost := [
            why
            for node, why in self.lost.items()
            if node in {item.name for item in self._facts.by_os(os)}
        ]:
            raise EnvironmentBroken(f"no {name} node is left: {'; '.join(lost)}")
        raise MissingCapability(
            f"the test needs a usable {name} node, but there is none"
            + (f" ({'; '.join(reasons)})" if reasons else ""),
            f"add a {name} node"
            + (
                ", or uncordon one, or tolerate its taint with --tolerate KEY[=VALUE][:EFFECT]"
                if reasons
                else ""
            ),
        )
