"""Draining a node through the API, as kubectl does: cordon, evict what has a controller, wait until it is gone.

Pods of DaemonSets, static pods and finished ones stay.  Pods without a controller would be lost for good: with one of
them on the node nothing at all is done.
"""

from collections.abc import Sequence
from typing import Any

from conformance.disrupt.patience import Patience
from conformance.errors import EnvironmentBroken, MissingCapability
from conformance.journal.cordon import LIFTED, cordoned_by
from conformance.journal.journalling import Journalling
from conformance.kube.changes import Changes
from conformance.kube.client import Obj
from conformance.kube.refused import ApiRefused
from conformance.model.change import Change, ObjectRef
from conformance.timing import SYSTEM_CLOCK, Clock, Deadline, until

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of static pods' shadows, which the API cannot end."""
GRACE = 30
"""s.  What evicted pods get at most to end in (kubectl drain --grace-period)."""


class Drain:
    """Drains nodes of one cluster, and lets pods in again."""

    def __init__(
        self, changes: Changes, journal: Journalling, patience: Patience, *, lose_data: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:  # fmt: skip
        """``lose_data``: pods with emptyDir may be evicted."""
        self._changes, self._journal, self._lose_data = changes, journal, lose_data
        self._patience, self._clock = patience, clock

    def possible(self, node: str) -> list[Obj]:
        """The pods that draining a node would evict.

        Raises MissingCapability when one of them has no controller, or data in an emptyDir that may not be lost.
        """
        evicted = [item for item in self._on(node) if not _stays(item)]
        bare = [_label(item) for item in evicted if _controller(item) is None]
        if bare:
            raise MissingCapability(
                f"node {node} cannot be drained: pods without a controller would be lost: {', '.join(bare)}",
                "move them away, or name another node by --disruptive-node NAME",
            )
        holding = [_label(item) for item in evicted if _volumes(item)]
        if holding and not self._lose_data:
            raise MissingCapability(
                f"node {node} cannot be drained: the data in emptyDir of pods would be lost: {', '.join(holding)}",
                "allow that with --delete-emptydir-data, or move them away",
            )
        return evicted

    def refuse_budgets(self, node: str) -> None:
        """Raises MissingCapability where a PodDisruptionBudget forbids now to evict one of the node's pods.

        For who has changed nothing yet; once a drain is under way, it waits for budgets.
        """
        for pod in self.possible(node):
            if refusal := self._changes.eviction_refusal(_pod(pod)):
                raise MissingCapability(
                    f"node {node} cannot be drained: pod {_label(pod)} may not be evicted: {refusal}",
                    "add replicas that run elsewhere or loosen the budget for the run, or name another node by "
                    "--disruptive-node NAME",
                )

    def drain(self, node: str) -> list[str]:
        """Cordon a node and evict its pods; which ones.

        Raises MissingCapability as :meth:`possible`, EnvironmentBroken (a budget, or an error of the server's own,
        forbids it to the end; a pod does not go), ApiRefused, LockLost.
        """
        self.possible(node)
        self._journal.patch(_node(node), {"spec": {"unschedulable": True}}, f"drains node {node}: cordon")
        evicted = self.possible(node)  # nothing new comes from here on
        deadline = Deadline(self._patience.drain, self._clock)
        for pod in evicted:
            self._evict(pod, node, deadline)
        self._gone(node, evicted, deadline)
        return [_label(item) for item in evicted]

    def uncordon(self, node: str) -> None:
        """Let pods in again where this run has cordoned the node; what somebody else has cordoned stays so.

        The journal's entry of the cordon then finds nothing to restore.
        """
        changes = self._changes  # which mark nothing in a dry run
        if changes.dry_run or cordoned_by(changes.kube.find("v1", "Node", node)) == changes.run.run:
            changes.patch(_node(node), dict(LIFTED), f"uncordons node {node}", foreign=True)

    def _on(self, node: str) -> list[Obj]:
        return self._changes.kube.objects("v1", "Pod", fields=f"spec.nodeName={node}")

    def _evict(self, pod: Obj, node: str, deadline: Deadline) -> None:
        uid = pod["metadata"]["uid"]
        options = {"deleteOptions": {"gracePeriodSeconds": GRACE, "preconditions": {"uid": uid}}}
        change = Change(
            verb="evict", target=_pod(pod), why=f"drains node {node}", body=options, cluster_scoped_or_foreign=True
        )
        while True:
            try:
                self._changes.make(change)
                return
            except ApiRefused as refusal:
                if refusal.not_found or refusal.code == 409:  # gone, or another pod of its name by now
                    return
                if refusal.code != 429 and refusal.code < 500:  # else a budget, or a server or webhook in trouble
                    raise
                if deadline.expired:
                    raise EnvironmentBroken(
                        f"node {node} was not drained in {deadline.seconds:.0f} s: pod {_label(pod)} may not be "
                        f"evicted: {refusal.explained}"
                    ) from refusal
            self._clock.sleep(self._patience.evict_again)

    def _gone(self, node: str, evicted: Sequence[Obj], deadline: Deadline) -> None:
        uids = {item["metadata"]["uid"] for item in evicted}
        settled = until(
            lambda: [item for item in self._on(node) if item["metadata"]["uid"] in uids],
            lambda left: not left,
            within=deadline.remaining,
            every=self._patience.poll_every,
            description=f"evicted pods have left node {node}",
            clock=self._clock,
        )
        if not settled.converged:
            raise EnvironmentBroken(
                f"node {node} was not drained in {deadline.seconds:.0f} s: still there are "
                f"{', '.join(map(_label, settled.last))}"
            )


def _node(name: str) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="Node", name=name)


def _pod(pod: Obj) -> ObjectRef:
    meta = pod["metadata"]
    return ObjectRef(api_version="v1", kind="Pod", name=meta["name"], namespace=meta["namespace"])


def _controller(pod: Obj) -> dict[str, Any] | None:
    owners = pod["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def _stays(pod: Obj) -> bool:
    owner = _controller(pod)
    finished = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    mirror = MIRROR in (pod["metadata"].get("annotations") or {})
    return mirror or finished or (owner is not None and owner.get("kind") == "DaemonSet")


def _volumes(pod: Obj) -> list[str]:
    return [volume["name"] for volume in pod["spec"].get("volumes") or [] if "emptyDir" in volume]


def _label(pod: Obj) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
