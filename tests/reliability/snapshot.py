# SPDX-License-Identifier: Apache-2.0
"""A cluster's state by its API, and the differences between two states, since a run must leave the
cluster as it was.

These parts are compared: specs, labels, annotations and data of all objects; pods, by owner and
number; IPAM's addresses with those of existing pods; nodes; and objects that still have this
suite's label.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from conformance.kube.client import Kube

MANAGED_BY = "app.kubernetes.io/managed-by"
OURS = "calico-windows-conformance"
LIVING = {
    "pods", "events", "endpoints", "endpointslices", "replicasets", "controllerrevisions", "blockaffinities",
    "ipamblocks", "ipamhandles", "leases", "componentstatuses",
}  # fmt: skip
"""Kinds that come and go with pods, or that only show that a component is alive. They are compared
in another way, or not at all."""
COUNTED = ("deprecated.daemonset.template.generation", "deployment.kubernetes.io/revision")
"""Annotations in which controllers count changes, including undone changes."""
RESERVED = "windows-reserved-ipam-handle"


@dataclass(frozen=True)
class Snapshot:
    """The state of a cluster at one moment."""

    objects: dict[str, dict[str, Any]]
    """Map ``group/plural namespace/name`` to the written parts of the object."""
    pods: Counter[str]
    """Map ``namespace owner`` to the number of its running and ready pods."""
    problems: tuple[str, ...]
    """Faults within this state: addresses and nodes."""
    ours: tuple[str, ...]
    """Objects with this suite's label."""


def take(kube: Kube) -> Snapshot:
    """Return the present state."""
    with ThreadPoolExecutor(8) as threads:
        listed = list(
            threads.map(lambda path: (path, kube.read(path).get("items") or []), _collections(kube))
        )
    objects, ours = {}, []
    for path, items in listed:
        for item in items:
            meta = item["metadata"]
            name = f"{path} {meta.get('namespace', '')}/{meta['name']}"
            if (meta.get("labels") or {}).get(MANAGED_BY) == OURS:
                ours.append(name)
            elif path.rpartition("/")[2] not in LIVING:
                objects[name] = _written(item)
    pods = next(items for path, items in listed if path == "/api/v1/pods")
    nodes = next(items for path, items in listed if path == "/api/v1/nodes")
    blocks = next(
        (items for path, items in listed if path.endswith("crd.projectcalico.org/v1/ipamblocks")),
        [],
    )
    return Snapshot(
        objects=objects,
        pods=Counter(_owner(pod) for pod in pods if _ready(pod)),
        problems=(*_addresses(pods, blocks), *_nodes(nodes), *_unready(pods)),
        ours=tuple(sorted(ours)),
    )


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """Return one line per difference; none if the states are equal."""
    found = [f"left over: {name}" for name in after.ours if name not in before.ours]
    found += [f"gone: {name}" for name in before.objects if name not in after.objects]
    found += [f"new: {name}" for name in after.objects if name not in before.objects]
    for name, was in before.objects.items():
        found += [f"changed: {name} {line}" for line in _changed(was, after.objects.get(name, was))]
    for owner in before.pods | after.pods:
        if before.pods[owner] != after.pods[owner]:
            found.append(f"pods of {owner}: {before.pods[owner]} before, {after.pods[owner]} after")
    return found + [
        f"problem: {problem}" for problem in after.problems if problem not in before.problems
    ]


def _collections(kube: Kube) -> Iterator[str]:
    """Yield the paths of all kinds that can be listed."""
    versions = ["/api/v1"]
    for group in kube.read("/apis")["groups"]:
        versions.append(f"/apis/{group['preferredVersion']['groupVersion']}")
    for version in versions:
        for resource in kube.read(version)["resources"]:
            if "/" not in resource["name"] and "list" in resource["verbs"]:
                yield f"{version}/{resource['name']}"


def _written(item: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of an object that people and controllers write, without the server's own
    counters and reports."""
    meta = item["metadata"]
    annotations = {
        key: value for key, value in (meta.get("annotations") or {}).items() if key not in COUNTED
    }
    rest = {
        key: value
        for key, value in item.items()
        if key not in ("metadata", "status", "apiVersion", "kind")
    }
    return {
        "labels": meta.get("labels") or {},
        "annotations": annotations,
        "uid": meta.get("uid"),
        **rest,
    }


def _changed(was: Any, now: Any, at: str = "") -> Iterator[str]:
    if isinstance(was, dict) and isinstance(now, dict):
        for key in sorted({*was, *now}):
            yield from _changed(was.get(key), now.get(key), f"{at}.{key}")
    elif was != now:
        yield f"{at}: {was!r} before, {now!r} after"


def _owner(pod: dict[str, Any]) -> str:
    meta = pod["metadata"]
    owners = [
        reference for reference in meta.get("ownerReferences") or [] if reference.get("controller")
    ]
    if not owners:
        return f"{meta['namespace']} pod {meta['name']}"
    kind, name = owners[0]["kind"], owners[0]["name"]
    return f"{meta['namespace']} {kind} {name.rpartition('-')[0] if kind == 'ReplicaSet' else name}"


def _ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    ) and not _going(pod)


def _going(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _unready(pods: list[dict[str, Any]]) -> Iterator[str]:
    for pod in pods:
        if not _ready(pod):
            yield f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']} is not ready"


def _nodes(nodes: list[dict[str, Any]]) -> Iterator[str]:
    for node in nodes:
        name, spec = node["metadata"]["name"], node.get("spec") or {}
        conditions = {
            condition["type"]: condition["status"] for condition in node["status"]["conditions"]
        }
        if conditions.get("Ready") != "True":
            yield f"node {name} is not ready"
        if spec.get("unschedulable"):
            yield f"node {name} is cordoned"
        for taint in spec.get("taints") or []:
            if taint["key"].startswith("node.kubernetes.io/"):
                yield f"node {name} has taint {taint['key']}"


def _addresses(pods: list[dict[str, Any]], blocks: list[dict[str, Any]]) -> Iterator[str]:
    """Yield addresses that IPAM assigned to a pod that does not have them, and pods' addresses that
    IPAM did not assign."""
    given: dict[str, str] = {}
    for block in blocks:
        spec = block["spec"]
        first = ipaddress.IPv4Network(spec["cidr"]).network_address
        for ordinal, index in enumerate(spec.get("allocations") or []):
            if index is None:
                continue
            attribute = spec["attributes"][index]
            name = (attribute.get("secondary") or {}).get("pod")
            if attribute.get("handle_id") != RESERVED and name:
                given[str(first + ordinal)] = f"{attribute['secondary'].get('namespace')}/{name}"
    networked = {
        pod["status"]["podIP"]: f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in pods
        if (pod.get("status") or {}).get("podIP")
        and not pod["spec"].get("hostNetwork")
        and not _going(pod)
    }
    for address, name in given.items():
        if networked.get(address) != name:
            yield f"address {address} is given to pod {name}, which does not have it"
    for address, name in networked.items():
        if address not in given:
            yield f"address {address} of pod {name} was given by no block"
