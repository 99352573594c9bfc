"""Manifests as a cluster would have them: what API server, scheduler and IPAM add, as far as policy depends on it.

A namespace's ``kubernetes.io/metadata.name``, a pod's node and address, the tiers that Calico makes.
What had to be made up is said: policy by selector writes addresses into ACL lists, so pods without one get one.
"""

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hybridlab.policy import Obj
from hybridlab.policy.release import Release

OS_LABEL = "kubernetes.io/os"
NODES = {"windows": "windows-node", "linux": "linux-node"}
"""Where pods without a node are taken to be."""
_MADE_UP_POOL = ipaddress.IPv4Network("192.168.0.0/16")


@dataclass
class Cluster:
    """Objects ready for ``offline.Objects``."""

    objects: list[Obj] = field(default_factory=list)
    os: dict[str, str] = field(default_factory=dict)
    """The operating system of each pod, by ``namespace/name``."""
    hosts: tuple[str, ...] = ()
    """Addresses of Windows nodes, ``a.b.c.d/32``."""
    assumed: list[str] = field(default_factory=list)
    """What no object said."""


def _of_kind(listed: Iterable[Obj], kind: str) -> Iterator[Obj]:
    return (obj for obj in listed if obj.get("kind") == kind)


def cluster(given: Iterable[Obj], release: Release) -> Cluster:
    """A cluster of these objects."""
    listed = [obj for item in given for obj in _unlisted(item)]
    made = Cluster()
    nodes = {obj["metadata"]["name"]: obj for obj in _of_kind(listed, "Node")}
    windows = [node for node in nodes.values() if _os_of_node(node) == "windows"]
    made.hosts = tuple(f"{address}/32" for node in windows for address in _internal(node))
    if not made.hosts:
        made.assumed.append(
            "no Node of Windows with an InternalIP: the entry for the node's own addresses is left out"
        )
    tiers = {obj["metadata"]["name"] for obj in _of_kind(listed, "Tier")}
    made.objects += (
        _tier(name, order, end) for name, order, end in release.tiers if name not in tiers
    )
    namespaces = {obj["metadata"]["name"] for obj in _of_kind(listed, "Namespace")}
    used = {obj["metadata"].get("namespace", "default") for obj in _of_kind(listed, "Pod")}
    made.objects += (_namespace({"metadata": {"name": name}}) for name in sorted(used - namespaces))
    free = _free_addresses(listed)
    for obj in listed:
        if obj.get("kind") == "Namespace":
            made.objects.append(_namespace(obj))
        elif obj.get("kind") == "Pod":
            made.objects.append(_pod(obj, nodes, free, made))
        else:
            made.objects.append(_namespaced(obj))
    return made


def _unlisted(obj: Obj) -> Iterator[Obj]:
    if not isinstance(obj, dict):
        raise ValueError(f"no Kubernetes object: {str(obj)[:60]!r}")
    if str(obj.get("kind", "")).endswith("List") and "items" in obj:
        yield from obj["items"]
    elif "kind" not in obj or "apiVersion" not in obj or "name" not in (obj.get("metadata") or {}):
        raise ValueError("an object needs apiVersion, kind and metadata.name")
    else:
        yield obj


def _namespace(obj: Obj) -> Obj:
    name = obj["metadata"]["name"]
    labels = {**(obj["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


_WITHOUT_NAMESPACE = frozenset({"Node", "Tier", "HostEndpoint"})


def _namespaced(obj: Obj) -> Obj:
    """With the namespace that kubectl would give it."""
    kind = obj["kind"]
    meta = obj["metadata"]
    clusterwide = kind.startswith(("Global", "StagedGlobal", "Cluster")) or kind.endswith(
        "AdminNetworkPolicy"
    )
    if clusterwide or kind in _WITHOUT_NAMESPACE or "namespace" in meta:
        return obj
    return {**obj, "metadata": {**meta, "namespace": "default"}}


def _tier(name: str, order: float, end: str) -> Obj:
    spec = {"order": order, "defaultAction": end}
    return {
        "apiVersion": "projectcalico.org/v3",
        "kind": "Tier",
        "metadata": {"name": name},
        "spec": spec,
    }


def _pod(pod: Obj, nodes: dict[str, Obj], free: Iterator[str], made: Cluster) -> Obj:
    """A pod with a node and an address, and its operating system noted."""
    meta = pod["metadata"]
    spec = pod.get("spec") or {}
    status = pod.get("status") or {}
    namespace = meta.get("namespace", "default")
    name = f"{namespace}/{meta['name']}"
    os = _os_of_pod(spec, nodes)
    made.os[name] = os
    annotations = meta.get("annotations") or {}
    address = annotations.get("cni.projectcalico.org/podIP") or status.get("podIP")
    if not address:
        address = next(free)
        made.assumed.append(f"pod {name} says no address: taken to be {address}")
    return {
        **pod,
        "metadata": {
            **meta,
            "namespace": namespace,
            "annotations": {**annotations, "cni.projectcalico.org/podIP": address},
        },
        "spec": {**spec, "nodeName": spec.get("nodeName") or NODES[os]},
    }


def _os_of_pod(spec: dict[str, Any], nodes: dict[str, Obj]) -> str:
    node = nodes.get(spec.get("nodeName") or "")
    said = (
        _os_of_node(node) if node else None,
        (spec.get("os") or {}).get("name"),
        (spec.get("nodeSelector") or {}).get(OS_LABEL),
    )
    return "windows" if next((os for os in said if os), "linux") == "windows" else "linux"


def _os_of_node(node: Obj) -> str | None:
    told = ((node.get("status") or {}).get("nodeInfo") or {}).get("operatingSystem")
    return (node["metadata"].get("labels") or {}).get(OS_LABEL) or told


def _internal(node: Obj) -> list[str]:
    addresses = (node.get("status") or {}).get("addresses") or ()
    return [
        address["address"]
        for address in addresses
        if address.get("type") == "InternalIP" and ":" not in address["address"]
    ]


def _free_addresses(objects: Iterable[Obj]) -> Iterator[str]:
    taken = {
        str(address).partition("/")[0]
        for obj in objects
        if obj.get("kind") == "Pod"
        for address in (
            (obj.get("status") or {}).get("podIP"),
            (obj["metadata"].get("annotations") or {}).get("cni.projectcalico.org/podIP"),
        )
        if address
    }
    return (str(address) for address in _MADE_UP_POOL.hosts() if str(address) not in taken)
