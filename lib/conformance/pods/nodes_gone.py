# SPDX-License-Identifier: Apache-2.0
"""Nodes that disappear while a run uses them: removed by an autoscaler, or deleted. Decisions about
them are NOT_RUN."""

from collections.abc import Iterable

from conformance.errors import MissingCapability
from conformance.kube.client import Kube, Obj
from conformance.kube.refused import ApiRefused

REMOVERS = {
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler is removing it",
    "karpenter.sh/disrupted": "Karpenter is removing it",
    "karpenter.sh/disruption": "Karpenter is removing it",
}
"""Taints of nodes that are about to be removed."""
REMEDY = (
    "run again on nodes that are not removed: exclude them from autoscaling, or name "
    "other nodes with --nodes"
)


def gone(kube: Kube, names: Iterable[str], *, by_list: bool = False) -> MissingCapability | None:
    """Return the error if one of these nodes is deleted or being deleted; None as long as all
    exist.

    ``by_list``: read all nodes by one request (:meth:`NodeWatch.lists`). Raise ApiUnreachable.
    """
    try:
        listed = (
            {node["metadata"]["name"]: node for node in kube.objects("v1", "Node")}
            if by_list
            else {}
        )
    except ApiRefused:  # the user may not list nodes, but may read single nodes
        by_list = False
    for name in dict.fromkeys(names):
        try:
            node = listed.get(name) if by_list else kube.find("v1", "Node", name)
        except ApiRefused:  # the user may not read this node
            continue
        if why := _why(node):
            return MissingCapability(f"node {name} was removed during the run: {why}", REMEDY)
    return None


def _why(node: Obj | None) -> str:
    if node is None:
        return "the cluster no longer has this node"
    if node["metadata"].get("deletionTimestamp"):
        return "it is being deleted"
    taints = (node.get("spec") or {}).get("taints") or []
    return next((REMOVERS[taint["key"]] for taint in taints if taint.get("key") in REMOVERS), "")
