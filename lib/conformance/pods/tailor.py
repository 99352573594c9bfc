# SPDX-License-Identifier: Apache-2.0
"""The conversion of a manifest's Deployment to the object to apply: node, image, tolerations, name.
The conversion makes no request to the API."""

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from conformance.kube.ownership import RUN_LABEL
from conformance.kube.pod_state import SYSCTLS
from conformance.model.facts import NodeFacts
from conformance.pods.images import pull_secrets, reference, windows_image
from conformance.settings import Images, PodLimits

Obj = dict[str, Any]
SEAT = "conformance/seat"
"""The label that distinguishes a pod of a role from the role's pods on other nodes. Policies select
all pods of the role by ``app``."""
CONTAINERS = "conformance/containers"
"""The annotation that lists the containers which the suite requested for a pod. Any other container
was added by another owner's admission."""
EXEMPT = f"exempt namespaces with the label {RUN_LABEL} from whatever adds it (a service mesh's injection, Kyverno)"
OF_A_MESH = re.compile(r"istio|linkerd|envoy|kuma|consul|proxy", re.IGNORECASE)
"""Matches the name or image of a container that connects and accepts connections in its pod's
place."""
LEADS = frozenset({"NET_ADMIN", "NET_RAW", "ALL"})
"""Capabilities by which a container can redirect its pod's packets."""


def deployment(
    template: Obj,
    *,
    role: str,
    name: str,
    node: NodeFacts,
    images: Images,
    tolerations: Sequence[Mapping[str, str]],
    labels: Mapping[str, str] | None = None,
    limits: PodLimits | None = None,
) -> Obj:
    """Return a Deployment of one replica, or a DaemonSet, that is bound to ``node``.

    ``role`` is the pods' label ``app``; ``name`` is the name of the object, and the pods' seat
    label; ``labels`` are added to the pods. Raise MissingCapability if no image fits the node.
    """
    made = copy.deepcopy(template)
    own = {"app": role, SEAT: name}
    made["metadata"]["name"] = name
    made["metadata"]["labels"] = {**(made["metadata"].get("labels") or {}), **own}
    made["spec"]["selector"] = {"matchLabels": own}
    pod = made["spec"]["template"]
    pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **(labels or {}), **own}
    spec = pod["spec"]
    pod["metadata"].setdefault("annotations", {})[CONTAINERS] = ",".join(
        container["name"] for container in _containers(spec)
    )
    if sysctls := (spec.get("securityContext") or {}).get("sysctls"):
        pod["metadata"]["annotations"][SYSCTLS] = ",".join(one["name"] for one in sysctls)
    fit(spec, node, images, limits)
    spec["tolerations"] = [dict(toleration) for toleration in tolerations]
    selector = dict(spec.get("nodeSelector") or {})
    for key in ("kubernetes.io/hostname", "node.kubernetes.io/windows-build"):
        if key in node.labels:
            selector[key] = node.labels[key]
    spec["nodeSelector"] = selector
    if (
        "kubernetes.io/hostname" not in selector
    ):  # some webhooks rely on affinity, so it also requires the node
        spec["affinity"] = on_nodes(node.name)
    return made


def fit(spec: Obj, node: NodeFacts, images: Images, limits: PodLimits | None = None) -> None:
    """Give a pod spec's containers the images for a node, their pull secrets, and limits.

    HostProcess containers need no image of their node's build.
    """
    own_build = node.os == "windows" and not spec.get("hostNetwork")
    containers = _containers(spec)
    published = [
        windows_image(item["image"], node) if own_build else item["image"] for item in containers
    ]
    for container, image in zip(containers, published, strict=True):
        container["image"] = reference(image, images)
    if secrets := pull_secrets(published, images):
        spec["imagePullSecrets"] = [{"name": name} for name in secrets]
    if limits:
        limit(spec, limits)


def limit(spec: Obj, limits: PodLimits) -> None:
    """Give every container of a pod spec limits."""
    for container in _containers(spec):
        container.setdefault("resources", {})["limits"] = {
            "cpu": limits.cpu,
            "memory": limits.memory,
        }


def added(pod: Obj) -> list[Obj]:
    """Return the containers that admission added to a pod; none if the requested containers are not
    known."""
    own = (pod["metadata"].get("annotations") or {}).get(CONTAINERS)
    return (
        [
            container
            for container in _containers(pod["spec"])
            if container["name"] not in own.split(",")
        ]
        if own
        else []
    )


def redirecting(pod: Obj) -> str:
    """Return an added container that may change the traffic of its pod; an empty string if there is
    none."""
    for container in added(pod):
        context = container.get("securityContext") or {}
        may = LEADS.intersection((context.get("capabilities") or {}).get("add") or ())
        named = f"{container['name']} {str(container.get('image')).rpartition('/')[2]}"
        if may or context.get("privileged") or OF_A_MESH.search(named):
            return f"container {container['name']} ({container.get('image')}), which the run did not request"
    return ""


def _containers(spec: Obj) -> list[Obj]:
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def on_nodes(*names: str) -> Obj:
    """Return the affinity of a pod that may run only on these nodes. It refers to the nodes' names,
    not their labels."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        for name in names
    ]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }
