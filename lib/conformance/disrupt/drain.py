# SPDX-License-Identifier: Apache-2.0
"""Drains a node through the API as kubectl does: cordon it, evict the pods that have a controller,
wait.

Pods of DaemonSets, static pods, finished pods and pods in the host's network stay. A pod without a
controller would be lost for good. If the node has such a pod, nothing is done.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from conformance.disrupt.disruption import Disruption
from conformance.errors import EnvironmentBroken, MissingCapability
from conformance.journal.cordon import LIFTED, cordoned_by
from conformance.kube.changes import pod_reference
from conformance.kube.client import Obj
from conformance.kube.node_conditions import CORDON, tolerated
from conformance.kube.refused import ApiRefused
from conformance.model.change import Change, ObjectRef
from conformance.pods.third_party import controller, daemonset_of, is_own, label, networked
from conformance.timing import Deadline, until

ROUNDS = 2
"""The maximum number of rounds in which pods that came to a drained node are evicted. After that,
the drain is given up."""
DEFAULT_GRACE = 30
"""Kubernetes' default for terminationGracePeriodSeconds, in seconds."""
HOSTNAME = "kubernetes.io/hostname"
NAMES = (HOSTNAME, "metadata.name")
"""The keys by which a node affinity refers to a node."""


@dataclass(eq=False)
class Drain(Disruption):
    """Drains nodes of a cluster, and ends these drains."""

    lose_data: bool = field(default=False, kw_only=True)
    """Pods with data in an emptyDir may be evicted."""

    def possible(self, node: str) -> list[Obj]:
        """Return the pods that a drain of the node would evict.

        Raise MissingCapability if one of these pods has no controller, or has data in an emptyDir
        that may not be lost. Raise it also if a pod on the node takes longer to end than the drain
        waits.
        """
        return self._evictable(node, self._on(node))

    def refuse_returning(self, node: str) -> None:
        """Raise MissingCapability if a pod of another owner would come back while the node is
        cordoned.

        The pod would run there again when the node's HNS network is removed.
        """
        back = [
            f"{label(pod)} ({why})"
            for pod in self.possible(node)
            if not is_own(pod) and (why := self._returns(pod))
        ]
        if back:
            raise MissingCapability(
                f"node {node} cannot be drained: these pods of other owners would come back "
                "although the node is cordoned: "
                f"{', '.join(back)}",
                "remove from these pods the toleration of a cordon's taint, and the name of the "
                "node; "
                "or move the pods "
                "away; or run without --allow-cluster-disruptive",
            )

    def refuse_budgets(self, node: str) -> None:
        """Raise MissingCapability if a PodDisruptionBudget now forbids the eviction of a pod of the
        node. Call this before anything is changed; a drain that is under way waits for budgets."""
        for pod in self.possible(node):
            if refusal := self.changes.eviction_refusal(pod_reference(pod)):
                raise MissingCapability(
                    f"node {node} cannot be drained: the eviction of pod {label(pod)} was refused: "
                    f"{refusal}",
                    "add replicas that run elsewhere or loosen the budget for the run, or name another node by "
                    "--disruptive-node NAME",
                )

    def drain(self, node: str) -> list[str]:
        """Cordon a node and evict its pods; return the evicted pods.

        Raise MissingCapability as :meth:`possible` does. Raise EnvironmentBroken if a budget or an
        error of the server still forbids an eviction when the time is over, or if an evicted pod
        stays. Raise ApiRefused, LockLost.
        """
        self.possible(node)
        self.journal.patch(
            _node(node), {"spec": {"unschedulable": True}}, f"drains node {node}: cordon"
        )
        evicted = self.possible(node)
        self.evict(node, evicted)
        return [label(item) for item in evicted]

    def evict(self, node: str, pods: Sequence[Obj]) -> None:
        """Evict these pods, each with its own grace period, and wait until they are gone. Raise as
        :meth:`drain` does.
        """
        deadline = Deadline(self.patience.drain, self.clock)
        for pod in pods:
            self._evict(pod, node, deadline)
        self._wait_until_gone(node, pods, deadline)

    def emptied(self, node: str) -> list[Obj]:
        """Read the pods of a drained node again. Return the remaining pods with a network of their
        own, which are pods of DaemonSets and of the suite.

        All other pods that have come to the node are evicted first, in at most ROUNDS rounds. Raise
        EnvironmentBroken if one of them is still there afterwards, and the errors of :meth:`drain`.
        """
        for done in range(ROUNDS + 1):
            there = self.networked(node)
            others = [pod for pod in there if not (daemonset_of(pod) or is_own(pod))]
            if not others:
                return there
            if done < ROUNDS:
                self.evict(node, self._evictable(node, others))
        raise EnvironmentBroken(
            f"node {node} was not emptied: {', '.join(map(label, others))} came back after {ROUNDS} rounds of eviction"
        )

    def renew(self, node: str, pods: Sequence[Obj]) -> None:
        """Evict pods that have lost their network, so that their controllers make new pods.

        A pod whose eviction is refused stays. Raise as :meth:`evict` does.
        """
        for pod in pods:
            try:
                self.evict(node, self._evictable(node, [pod]))
            except MissingCapability:
                continue  # a caller that needs the pod's endpoint will report the pod

    def networked(self, node: str) -> list[Obj]:
        """Return the pods on a node that have a network to lose. Return no pods in a dry run, which
        evicts none."""
        return [] if self.changes.dry_run else list(filter(_loses, self._on(node)))

    def uncordon(self, node: str) -> None:
        """Uncordon the node if this run has cordoned it. A node that another user cordoned stays
        cordoned.

        The journal's entry of the cordon has nothing left to restore afterwards.
        """
        changes = self.changes  # a dry run marks no node, so no mark is needed
        if changes.dry_run or cordoned_by(changes.kube.find("v1", "Node", node)) == changes.run.run:
            changes.patch(_node(node), dict(LIFTED), f"uncordons node {node}", foreign=True)

    def _on(self, node: str) -> list[Obj]:
        return self.kube.objects("v1", "Pod", fields=f"spec.nodeName={node}")

    def _evictable(self, node: str, pods: Sequence[Obj]) -> list[Obj]:
        """Return those of a node's pods that a drain evicts. Raise as :meth:`possible` does."""
        evicted = [item for item in pods if networked(item) and not daemonset_of(item)]
        self._refuse(
            node,
            "these pods have no controller and would be lost",
            [item for item in evicted if controller(item) is None],
            "move the pods away, or name another node by --disruptive-node NAME",
        )
        self._refuse(
            node,
            "the data in emptyDir volumes of these pods would be lost",
            [item for item in evicted if _volumes(item) and not self.lose_data],
            "allow that with --delete-emptydir-data, or move the pods away",
        )
        self._refuse(
            node,
            f"these pods take longer to end than the {self.patience.drain:.0f} s for which a drain "
            "waits",
            [item for item in pods if _loses(item) and grace(item) > self.patience.drain],
            "give the drain more time (drain: in a file for --timings), or move the pods away",
        )
        return evicted

    def _refuse(self, node: str, why: str, pods: Sequence[Obj], remedy: str) -> None:
        if pods:
            raise MissingCapability(
                f"node {node} cannot be drained: {why}: {', '.join(map(label, pods))}", remedy
            )

    def _returns(self, pod: Obj) -> str:
        """Return the reason why a pod's replacement would run on the same node in spite of a
        cordon. Return an empty string if it would not."""
        spec = pod["spec"]
        if tolerated(CORDON, spec.get("tolerations") or ()):
            return f"tolerates {CORDON['key']}"
        if _pinned(spec):
            return "is pinned to the node"
        owner = controller(pod) or {}
        try:
            found = self.kube.find(
                owner.get("apiVersion", ""),
                owner["kind"],
                owner["name"],
                pod["metadata"]["namespace"],
            )
        except ApiRefused as refusal:
            if not refusal.forbidden:
                raise
            # this user may not read the controller; the node's pods are listed again before its
            # network is removed
            found = None
        template = ((found or {}).get("spec") or {}).get("template") or {}
        named = (template.get("spec") or {}).get("nodeName")
        return (
            f"{owner['kind']} {owner['name']} names the node"
            if named or _named_by_maker(pod)
            else ""
        )

    def _evict(self, pod: Obj, node: str, deadline: Deadline) -> None:
        change = Change(
            verb="evict",
            target=pod_reference(pod),
            why=f"drains node {node}",
            body={
                "deleteOptions": {"preconditions": {"uid": pod["metadata"]["uid"]}}
            },  # the pod's own grace period counts
            cluster_scoped_or_foreign=True,
        )
        while True:
            try:
                self.changes.make(change)
                return
            except ApiRefused as refusal:
                if (
                    refusal.not_found or refusal.code == 409
                ):  # the pod is gone, or another pod has its name
                    return
                if (
                    refusal.code != 429 and refusal.code < 500
                ):  # 429: a budget forbids it; 5xx: the server or a webhook has a problem
                    raise
                if deadline.expired:
                    raise EnvironmentBroken(
                        f"node {node} was not drained within {deadline.seconds:.0f} s: the "
                        f"eviction of pod {label(pod)} was refused: {refusal.explained}"
                    ) from refusal
            self.clock.sleep(self.patience.evict_again)

    def _wait_until_gone(self, node: str, evicted: Sequence[Obj], deadline: Deadline) -> None:
        uids = {item["metadata"]["uid"] for item in evicted}
        settled = until(
            lambda: [item for item in self._on(node) if item["metadata"]["uid"] in uids],
            lambda left: not left,
            within=deadline.remaining,
            every=self.patience.poll_every,
            description=f"evicted pods have left node {node}",
            clock=self.clock,
        )
        if not settled.converged:
            raise EnvironmentBroken(
                f"node {node} was not drained within {deadline.seconds:.0f} s; pods that remain: "
                f"{', '.join(map(label, settled.last))}"
            )


def grace(pod: Obj) -> float:
    """Return the grace period of a pod in seconds."""
    return float(pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE))


def _loses(pod: Obj) -> bool:
    """Return whether a pod loses its network when its node's HNS network is removed. Pods of the
    suite's own DaemonSets do not count."""
    return networked(pod) and not (daemonset_of(pod) and is_own(pod))


def _node(name: str) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="Node", name=name)


def _volumes(pod: Obj) -> list[str]:
    return [volume["name"] for volume in pod["spec"].get("volumes") or [] if "emptyDir" in volume]


def _pinned(spec: Obj) -> bool:
    """Return whether a pod requires one node by name, in its node selector or in each term of its
    required affinity."""
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    each = [
        any(len(values) == 1 for values in _names(term))
        for term in affinity.get("nodeSelectorTerms") or ()
    ]
    return HOSTNAME in (spec.get("nodeSelector") or {}) or (bool(each) and all(each))


def _names(term: Obj) -> Iterator[list[str]]:
    """Yield, for each requirement on a node's name in an affinity term, the names that it
    allows."""
    yield from (
        expression.get("values") or []
        for expression in [*(term.get("matchFields") or ()), *(term.get("matchExpressions") or ())]
        if expression.get("key") in NAMES and expression.get("operator") == "In"
    )


def _named_by_maker(pod: Obj) -> bool:
    """Return whether a pod was created with its node's name.

    If the scheduler or another program binds a pod to a node later, no managed field records this.
    """
    fields = [entry.get("fieldsV1") or {} for entry in pod["metadata"].get("managedFields") or ()]
    return any("f:nodeName" in (held.get("f:spec") or {}) for held in fields)
