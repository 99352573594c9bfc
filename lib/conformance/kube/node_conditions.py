# SPDX-License-Identifier: Apache-2.0
"""The state of a Node: readiness, whether it takes new pods, and the reason why not.

Sources: Kubernetes' documents, "Node status", "Taints and Tolerations", "Manual Node
administration".
"""

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.kube.fields import list_at, mapping_at, value_at

TAINTS = (
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/shutdown",
)
"""Taints of nodes that are down, or are shutting down."""
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
"""The taint of a cordoned node. The scheduler treats the node as if it had the taint, even before
the taint is added."""


def not_ready(node: dict[str, Any]) -> str:
    """Return the status, reason and message of the node's condition Ready, or else its taint.
    Return an empty string if the node is Ready or reports nothing."""
    for found in list_at(node, "status", "conditions"):
        if found.get("type") == "Ready" and found.get("status") != "True":
            return f"Ready {found.get('status')}, {found.get('reason')}: {found.get('message')}"
    taints = [taint.get("key") for taint in list_at(node, "spec", "taints")]
    return next((f"taint {key}" for key in TAINTS if key in taints), "")


def boot_id(node: dict[str, Any]) -> str:
    """Return the boot ID of the node's running system; an empty string if it is not reported."""
    return str(value_at(node, "status", "nodeInfo", "bootID") or "")


def tolerated(taint: Mapping[str, Any], tolerations: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a pod with these tolerations may be scheduled in spite of a taint."""
    if taint.get("effect") == "PreferNoSchedule":
        return True
    return any(
        (toleration.get("key") or taint.get("key")) == taint.get("key")
        and (toleration.get("effect") or taint.get("effect")) == taint.get("effect")
        and (
            toleration.get("operator") == "Exists"
            or (toleration.get("value") or "") == (taint.get("value") or "")
        )
        for toleration in tolerations
    )


def closed(node: dict[str, Any], tolerations: Sequence[Mapping[str, Any]]) -> str:
    """Return why the node takes no new pods with these tolerations: ``cordoned``, or its taint.
    Return an empty string if it takes them."""
    spec = node.get("spec") or {}
    if spec.get("unschedulable") and not tolerated(CORDON, tolerations):
        return "cordoned"
    taint = next((one for one in spec.get("taints") or () if not tolerated(one, tolerations)), None)
    return (
        f"tainted {taint.get('key')}={taint.get('value') or ''}:{taint.get('effect')}"
        if taint
        else ""
    )


def may_take(node: dict[str, Any], spec: Mapping[str, Any]) -> bool:
    """Return whether a pod with this spec may run on the node, by its node selector and the node
    names it requires."""
    affinity = mapping_at(spec, "affinity", "nodeAffinity")
    names = [
        name
        for term in list_at(
            affinity, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
        )
        for field in list_at(term, "matchFields")
        for name in list_at(field, "values")
    ]
    labels = mapping_at(node, "metadata", "labels")
    return mapping_at(spec, "nodeSelector").items() <= labels.items() and (
        not names or node["metadata"]["name"] in names
    )
