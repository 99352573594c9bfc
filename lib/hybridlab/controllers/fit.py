# SPDX-License-Identifier: Apache-2.0
"""Decides whether a pod fits a node and how well, and reports the reasons if it does not fit: the
scheduler's filters and scores, without any state of their own.

The filters have the order of kube-scheduler's plugins; the reasons have the words of these plugins.
Volumes, affinity between pods, topology spread, extenders and preemption of other pods are not
emulated; the priorities of the lab's pods are never compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from hybridlab.api.contract import Obj, quantity
from hybridlab.controllers.selectors import expressions_match, labels_of, node_term_matches

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
UNSCHEDULABLE = "node(s) were unschedulable"
NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
PORTS = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS = "Too many pods"
BESIDE_PODS = "not emulated: affinity between pods"


@dataclass(frozen=True)
class Reasons:
    """The reasons why a pod does not fit a node."""

    texts: tuple[str, ...]
    resolvable: bool = False
    """Removing other pods from the node could help."""


HostPort = tuple[str, str, int]
"""Address (``0.0.0.0`` for all), protocol, port."""


@dataclass
class PodNeeds:
    """The parts of a pod that matter to the scheduler, computed once."""

    pod: Obj
    resources: dict[str, Decimal]
    host_ports: tuple[HostPort, ...]
    tolerations: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, pod: Obj) -> PodNeeds:
        """Compute the needs from the pod's spec."""
        spec = pod["spec"]
        ports = tuple(
            (port.get("hostIP") or "0.0.0.0", port.get("protocol", "TCP"), port["hostPort"])
            for container in spec["containers"]
            for port in container.get("ports") or ()
            if port.get("hostPort")
        )
        return cls(pod, _requests(pod), ports, spec.get("tolerations") or ())


@dataclass
class NodeState:
    """A node and its pods."""

    node: Obj
    pods: dict[str, PodNeeds] = field(default_factory=dict)
    """The pods by uid."""
    used: dict[str, Decimal] = field(default_factory=dict)

    def add(self, needs: PodNeeds) -> None:
        self.pods[needs.pod["metadata"]["uid"]] = needs
        for name, amount in needs.resources.items():
            self.used[name] = self.used.get(name, Decimal(0)) + amount

    def remove(self, uid: str) -> None:
        """Remove a pod from the counts, if it is counted."""
        needs = self.pods.pop(uid, None)
        for name, amount in needs.resources.items() if needs else ():
            self.used[name] -= amount


def tolerates(tolerations: Sequence[Mapping[str, Any]], taint: Mapping[str, Any]) -> bool:
    """Return whether any toleration matches the taint."""
    for toleration in tolerations:
        if toleration.get("effect") and toleration["effect"] != taint["effect"]:
            continue
        operator = toleration.get("operator") or "Equal"
        key = toleration.get("key") or ""
        if (not key and operator == "Exists") or (
            key == taint["key"]
            and (
                operator == "Exists"
                or (toleration.get("value") or "") == (taint.get("value") or "")
            )
        ):
            return True
    return False


def untolerated(needs: PodNeeds, node: Obj, effects: Iterable[str]) -> Mapping[str, Any] | None:
    """Return the node's first taint with one of these effects that the pod does not tolerate."""
    taints = node["spec"].get("taints") or ()
    return next(
        (
            taint
            for taint in taints
            if taint["effect"] in effects and not tolerates(needs.tolerations, taint)
        ),
        None,
    )


def required_node_names(pod: Obj) -> frozenset[str] | None:
    """Return the nodes to which ``matchFields metadata.name`` in every term of a pod's affinity
    restricts the pod; None if there is no such restriction."""
    names: set[str] = set()
    for term in _required_node_terms(pod) or ():
        fields = term.get("matchFields") or ()
        if not fields or any(entry["operator"] != "In" for entry in fields):
            return None
        names.update(fields[0]["values"])
    return frozenset(names) or None


def _required_node_terms(pod: Obj) -> Sequence[Mapping[str, Any]] | None:
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    return affinity["nodeSelectorTerms"] if affinity else None


def matches_node(pod: Obj, node: Obj) -> bool:
    """Return whether nodeSelector and required node affinity match."""
    labels = labels_of(node)
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    terms = _required_node_terms(pod)
    return terms is None or any(node_term_matches(term, node) for term in terms)


class Cluster:
    """All nodes with their pods, as the scheduler's filters read them."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeState] = {}

    def why_not(self, needs: PodNeeds, state: NodeState) -> Reasons | None:
        """Return the reasons of the first filter that rejects the pod; None if the pod fits."""
        node = state.node
        pod = needs.pod
        names = required_node_names(pod)
        if names is not None and node["metadata"]["name"] not in names:
            return Reasons((NOT_NAMED,))
        cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        if node["spec"].get("unschedulable") and not tolerates(needs.tolerations, cordon):
            return Reasons((UNSCHEDULABLE,))
        taint = untolerated(needs, node, ("NoSchedule", "NoExecute"))
        if taint:
            return Reasons(
                (f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}",)
            )
        if not matches_node(pod, node):
            return Reasons((NODE_AFFINITY,))
        if needs.host_ports and any(_clash(needs, other) for other in state.pods.values()):
            return Reasons((PORTS,), resolvable=True)
        affinity = pod["spec"].get("affinity") or {}
        if any(
            (affinity.get(kind) or {}).get(REQUIRED) for kind in ("podAffinity", "podAntiAffinity")
        ):
            return Reasons((BESIDE_PODS,))
        return self._resources(needs, state)

    def _resources(self, needs: PodNeeds, state: NodeState) -> Reasons | None:
        allocatable = state.node["status"].get("allocatable") or {}
        texts = []
        resolvable = True
        if len(state.pods) + 1 > int(allocatable.get("pods", 110)):
            texts.append(TOO_MANY_PODS)
        for name, amount in needs.resources.items():
            room = quantity(str(allocatable.get(name, 0)))
            if amount and amount > room - state.used.get(name, Decimal(0)):
                texts.append(f"Insufficient {name}")
                resolvable = resolvable and amount <= room
        return Reasons(tuple(texts), resolvable) if texts else None

    def score(self, needs: PodNeeds, state: NodeState) -> tuple[int, int, int, int]:
        """Return how well a pod fits a node that can take it; the largest result is the best.

        The criteria, most important first: few PreferNoSchedule taints, the pod's preferences, few
        pods of the same owner, few pods.
        """
        pod = needs.pod
        node = state.node
        taints = node["spec"].get("taints") or ()
        soft = sum(
            t["effect"] == "PreferNoSchedule" and not tolerates(needs.tolerations, t)
            for t in taints
        )
        owner = _owner(pod)
        alike = sum(_owner(other.pod) == owner for other in state.pods.values()) if owner else 0
        return -soft, self._preferred(pod, node), -alike, -len(state.pods)

    def _preferred(self, pod: Obj, node: Obj) -> int:
        affinity = pod["spec"].get("affinity") or {}
        key = "preferredDuringSchedulingIgnoredDuringExecution"
        total = 0
        for entry in (affinity.get("nodeAffinity") or {}).get(key) or ():
            term = entry["preference"]
            if expressions_match(term.get("matchExpressions") or (), labels_of(node)):
                total += entry["weight"]
        return total


def _owner(pod: Obj) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return owners[0]["uid"] if owners else ""


def _clash(pod_needs: PodNeeds, other: PodNeeds) -> bool:
    return any(
        mine[1:] == theirs[1:] and ("0.0.0.0" in (mine[0], theirs[0]) or mine[0] == theirs[0])
        for mine in pod_needs.host_ports
        for theirs in other.host_ports
    )


def explain(reasons: Sequence[Reasons]) -> str:
    """Return kube-scheduler's FailedScheduling message from the reasons of every node."""
    total = len(reasons)
    if not total:
        return "no nodes available to schedule pods"
    counts = Counter(text for reason in reasons for text in reason.texts)
    texts = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
    hopeless = sum(not reason.resolvable for reason in reasons)
    victims = []
    if total - hopeless:
        victims.append(f"{total - hopeless} No preemption victims found for incoming pod")
    if hopeless:
        victims.append(f"{hopeless} Preemption is not helpful for scheduling")
    return (
        f"0/{total} nodes are available: {texts}. "
        f"preemption: 0/{total} nodes are available: {', '.join(sorted(victims))}."
    )


def _requests(pod: Obj) -> dict[str, Decimal]:
    """Return the scheduler's reservation for a pod, by resource name: the sum of its containers and
    side-cars, or the largest init container if that is more, plus overhead.  A limit without a
    request counts as the request."""
    spec = pod["spec"]
    total: dict[str, Decimal] = {}
    for container in spec["containers"]:
        _add(total, _asked(container))
    largest: dict[str, Decimal] = {}
    for container in spec.get("initContainers", ()):
        if container.get("restartPolicy") == "Always":
            _add(total, _asked(container))
            continue
        for name, amount in _asked(container).items():
            largest[name] = max(largest.get(name, Decimal(0)), amount)
    for name, amount in largest.items():
        total[name] = max(total.get(name, Decimal(0)), amount)
    _add(
        total, {name: quantity(str(value)) for name, value in (spec.get("overhead") or {}).items()}
    )
    return total


def _asked(container: Obj) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: quantity(str(value)) for name, value in wanted.items()}


def _add(total: dict[str, Decimal], more: dict[str, Decimal]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount
