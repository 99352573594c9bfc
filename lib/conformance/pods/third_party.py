"""Pods of other people's DaemonSets on a node: a drain leaves them there, and a new HNS network costs them theirs."""

from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import NAMESPACE_PREFIX


def third_party_pods(kube: Kube, node: str) -> list[Obj]:
    """Pods of DaemonSets on a node that have a pod network and are not the suite's."""
    found = []
    for pod in kube.objects("v1", "Pod", fields=f"spec.nodeName={node}"):
        meta, spec = pod["metadata"], pod["spec"]
        windows = (spec.get("securityContext") or {}).get("windowsOptions") or {}
        on_host = bool(spec.get("hostNetwork") or windows.get("hostProcess"))
        own = str(meta.get("namespace") or "").startswith(NAMESPACE_PREFIX)
        finished = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if daemonset_of(pod) and not (on_host or own or finished or meta.get("deletionTimestamp")):
            found.append(pod)
    return found


def label(pod: Obj) -> str:
    """``namespace/name``."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def daemonset_of(pod: Obj) -> str:
    """Its DaemonSet, by namespace and name; empty when it has none."""
    owners = pod["metadata"].get("ownerReferences") or []
    owner = next((item for item in owners if item.get("controller") and item.get("kind") == "DaemonSet"), None)
    return f"{pod['metadata']['namespace']}/{owner['name']}" if owner else ""
