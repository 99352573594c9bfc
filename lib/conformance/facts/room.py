# SPDX-License-Identifier: Apache-2.0
"""The room that Windows nodes have left for pods.

A node is limited by the kubelet's max-pods, EKS' addresses of the VPC, the single IPAM block of a
Windows node (of which four addresses are reserved) and memory. A limit that cannot be read is
ignored.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.kube.client import Kube, Obj
from conformance.kube.refused import ApiRefused
from conformance.model.facts import Facts

BLOCKS = ("crd.projectcalico.org/v1", "projectcalico.org/v3")
"""APIs of IPAMBlock: the first by default, the second if Calico's CRDs are native v3."""
LARGEST = 60
"""The number of addresses for pods in the /26 block that a Windows node without a block will get.
"""
VPC_ADDRESSES = "vpc.amazonaws.com/PrivateIPv4Address"
"""The extended resource of EKS' Windows nodes, one unit for each pod's address. This resource
limits the number of pods on these nodes, not max-pods, which is 110
(aws/containers-roadmap#481)."""
_QUANTITY = re.compile(r"([0-9.]+)(Ki|Mi|Gi|Ti|k|M|G|T|)")
_UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, kw_only=True)
class Room:
    """The room that a node has left for pods."""

    addresses: int
    """The number of pods that the node's kubelet and its IPAM block can still take."""
    memory: int | None
    """The memory that no pod requests, in MiB; None if it is not known."""
    pods: int = LARGEST
    """The number of pods that the node's kubelet can still take, regardless of the node's block."""


def room_on_windows(kube: Kube, facts: Facts) -> dict[str, Room]:
    """Map each ready Windows node to the room that it has left; an empty mapping if the run may not
    list pods."""
    usable = {node.name for node in facts.by_os("windows") if node.ready and node.schedulable}
    try:
        nodes = {obj["metadata"]["name"]: obj for obj in kube.objects("v1", "Node")}
        pods = kube.objects("v1", "Pod")
    except ApiRefused:
        return {}
    on_node: dict[str, list[Obj]] = {}
    for pod in pods:
        spec = pod.get("spec") or {}
        if (pod.get("status") or {}).get("phase") not in _ENDED:
            on_node.setdefault(spec.get("nodeName") or "", []).append(spec)
    in_blocks = _unallocated(kube)
    return {
        name: _room(
            (nodes[name].get("status") or {}).get("allocatable") or {},
            on_node.get(name, []),
            in_blocks.get(name, LARGEST),
        )
        for name in sorted(usable & set(nodes))
    }


def _room(allocatable: Mapping[str, Any], pods: Sequence[Obj], in_blocks: int) -> Room:
    """Return the room that a node has left, given its pods (specs) and the free addresses of its
    blocks."""
    containers = [container for spec in pods for container in spec.get("containers") or ()]
    takes = max(0, int(allocatable.get("pods") or LARGEST) - len(pods))
    left = [in_blocks, takes]
    if VPC_ADDRESSES in allocatable:
        taken = sum(int(_requested(container, VPC_ADDRESSES)) for container in containers)
        left.append(int(allocatable[VPC_ADDRESSES]) - taken)
    memory = None
    if "memory" in allocatable:
        taken = sum(_mebibytes(_requested(container, "memory")) for container in containers)
        memory = max(0, _mebibytes(str(allocatable["memory"])) - taken)
    return Room(addresses=max(0, min(left)), memory=memory, pods=takes)


def _requested(container: Obj, resource: str) -> str:
    """Return how much of a resource a container requests."""
    return str(((container.get("resources") or {}).get("requests") or {}).get(resource) or "0")


def _mebibytes(quantity: str) -> int:
    """Return the whole MiB of a Kubernetes quantity: ``256Mi``, ``1Gi``, ``8123456Ki``,
    ``1000000``."""
    match = _QUANTITY.fullmatch(quantity)
    return 0 if not match else int(float(match[1]) * _UNITS[match[2]] / 2**20)


def _unallocated(kube: Kube) -> dict[str, int]:
    """Return the free addresses in each node's blocks, if they can be read."""
    api = next((api for api in BLOCKS if kube.discovery.serves(api, "IPAMBlock")), "")
    free: Counter[str] = Counter()
    try:
        blocks = kube.objects(api, "IPAMBlock") if api else []
    except ApiRefused:
        return {}
    for block in blocks:
        spec = block.get("spec") or {}
        kind, _, node = str(spec.get("affinity") or "").partition(":")
        if kind == "host":
            free[node] += len(spec.get("unallocated") or ())
    return free
