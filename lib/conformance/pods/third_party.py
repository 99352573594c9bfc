# SPDX-License-Identifier: Apache-2.0
"""Pods on a node that lose their network together with the node's HNS network, and which of these
pods belong to other owners."""

from collections.abc import Collection

from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import MANAGED_BY, NAMESPACE_PREFIX

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of the mirror objects of static pods, which the API cannot delete."""


def third_party_pods(kube: Kube, node: str) -> list[Obj]:
    """Return the pods of DaemonSets on a node that have a pod network and are not the suite's.

    A drain leaves these pods on the node, and they lose their network when the node gets a new HNS
    network.
    """
    return [
        pod for pod in kube.objects("v1", "Pod", fields=f"spec.nodeName={node}") if _is_theirs(pod)
    ]


def third_party_pods_by_node(kube: Kube, nodes: Collection[str]) -> dict[str, list[Obj]]:
    """Return the pods of other owners' DaemonSets by node, read by one list of all pods. Nodes
    without such pods are left out."""
    found: dict[str, list[Obj]] = {}
    for pod in kube.objects("v1", "Pod") if nodes else ():
        node = str(pod["spec"].get("nodeName") or "")
        if node in nodes and _is_theirs(pod):
            found.setdefault(node, []).append(pod)
    return found


def _is_theirs(pod: Obj) -> bool:
    """Return whether a pod belongs to another owner's DaemonSet, has a network to lose, and is not
    being deleted."""
    return (
        bool(daemonset_of(pod))
        and networked(pod)
        and not is_own(pod)
        and not pod["metadata"].get("deletionTimestamp")
    )


def networked(pod: Obj) -> bool:
    """Return whether a pod has a network of its own that it could lose. Host-network, static and
    finished pods have none."""
    spec = pod["spec"]
    contexts = [
        spec.get("securityContext"),
        *(container.get("securityContext") for container in spec.get("containers") or []),
    ]
    host_process = any(
        ((context or {}).get("windowsOptions") or {}).get("hostProcess") for context in contexts
    )
    if MIRROR in (pod["metadata"].get("annotations") or {}):
        return False
    finished = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not (spec.get("hostNetwork") or host_process or finished)


def is_own(pod: Obj) -> bool:
    """Return whether a pod belongs to the suite: to this run or to another run."""
    meta = pod["metadata"]
    by_name = str(meta.get("namespace") or "").startswith(NAMESPACE_PREFIX)
    return by_name or (meta.get("labels") or {}).get(MANAGED_BY[0]) == MANAGED_BY[1]


def label(pod: Obj) -> str:
    """Return ``namespace/name``."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def controller(pod: Obj) -> Obj | None:
    """Return the owner reference of a pod's controller; None if no controller would recreate the
    pod."""
    return next(
        (
            owner
            for owner in pod["metadata"].get("ownerReferences") or []
            if owner.get("controller")
        ),
        None,
    )


def daemonset_of(pod: Obj) -> str:
    """Return the pod's DaemonSet, by namespace and name; an empty string if it has none."""
    owner = controller(pod) or {}
    return (
        f"{pod['metadata']['namespace']}/{owner['name']}"
        if owner.get("kind") == "DaemonSet"
        else ""
    )
