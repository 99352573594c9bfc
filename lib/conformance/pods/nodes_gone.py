# SPDX-License-Identifier: Apache-2.0
"""Nodes that go away while a run uses them: taken by an autoscaler, or deleted.  What was on them is NOT_RUN."""

from collections.abc import Iterable

from conformance.errors import MissingCapability
from conformance.kube.client import Kube
from conformance.kube.refused import ApiRefused

REMOVERS = {
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler is removing it",
    "karpenter.sh/disrupted": "Karpenter is removing it",
    "karpenter.sh/disruption": "Karpenter is removing it",
}
"""Taints of nodes on their way out."""
REMEDY = "run again on nodes that stay: keep autoscalers from them, or name others by --nodes"


def gone(kube: Kube, names: Iterable[str]) -> MissingCapability | None:
    """What to raise when one of these nodes has gone away, or is on its way out; None while all are there.

    Raises ApiUnreachable.
    """
    for name in dict.fromkeys(names):
        if why := _why(kube, name):
            return MissingCapability(f"node {name} has gone away during the run: {why}", REMEDY)
    return None


def _why(kube: Kube, name: str) -> str:
    try:
        node = kube.find("v1", "Node", name)
    except ApiRefused:  # who may not read it knows nothing of it
        return ""
    if node is None:
        return "the cluster has no such node any more"
    if node["metadata"].get("deletionTimestamp"):
        return "it is being deleted"
    taints = (node.get("spec") or {}).get("taints") or []
    return next((REMOVERS[taint["key"]] for taint in taints if taint.get("key") in REMOVERS), "")
