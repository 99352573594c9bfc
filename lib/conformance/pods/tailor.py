"""From a manifest's Deployment to the one that is applied: node, image, tolerations, name.  Pure: no API, no files."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from conformance.model.facts import NodeFacts
from conformance.pods.images import pull_secrets, reference, windows_image
from conformance.settings import Images, PodLimits

Obj = dict[str, Any]
SEAT = "conformance/seat"
"""Label by which a pod of a role is told from the role's pods on other nodes; policies select the role by ``app``."""


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
    """A Deployment of one replica, or a DaemonSet, pinned to ``node``.

    ``role`` is the pods' label ``app``, ``name`` that of the object and of the pods' seat; ``labels`` are added to the
    pods.  Raises MissingCapability when no image fits the node.
    """
    made = copy.deepcopy(template)
    own = {"app": role, SEAT: name}
    made["metadata"]["name"] = name
    made["metadata"]["labels"] = {**(made["metadata"].get("labels") or {}), **own}
    made["spec"]["selector"] = {"matchLabels": own}
    pod = made["spec"]["template"]
    pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **(labels or {}), **own}
    spec = pod["spec"]
    fit(spec, node, images, limits)
    spec["tolerations"] = [dict(toleration) for toleration in tolerations]
    selector = dict(spec.get("nodeSelector") or {})
    for key in ("kubernetes.io/hostname", "node.kubernetes.io/windows-build"):
        if key in node.labels:
            selector[key] = node.labels[key]
    spec["nodeSelector"] = selector
    if "kubernetes.io/hostname" not in selector:  # pin through the scheduler all the same: webhooks rely on it
        spec["affinity"] = _by_name(node.name)
    return made


def fit(spec: Obj, node: NodeFacts, images: Images, limits: PodLimits | None = None) -> None:
    """Give a pod spec's containers the images for a node, their pull secrets, and limits.

    HostProcess containers need no image of their node's build.
    """
    own_build = node.os == "windows" and not spec.get("hostNetwork")
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    published = [windows_image(item["image"], node) if own_build else item["image"] for item in containers]
    for container, image in zip(containers, published, strict=True):
        container["image"] = reference(image, images)
    if secrets := pull_secrets(published, images):
        spec["imagePullSecrets"] = [{"name": name} for name in secrets]
    if limits:
        limit(spec, limits)


def limit(spec: Obj, limits: PodLimits) -> None:
    """Give every container of a pod spec limits."""
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        container.setdefault("resources", {})["limits"] = {"cpu": limits.cpu, "memory": limits.memory}


def on_node(name: str) -> Obj:
    """The node selector term that only one node matches: by its name, not its labels."""
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}


def _by_name(node: str) -> Obj:
    terms = {"nodeSelectorTerms": [on_node(node)]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
