"""From a manifest's Deployment to the one that is applied: node, image, tolerations, name.  Pure: no API, no files."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from conformance.model.facts import NodeFacts
from conformance.pods.images import mirrored, windows_image
from conformance.settings import Images

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
    fit(spec, node, images)
    spec["tolerations"] = [dict(one) for one in tolerations]
    selector = dict(spec.get("nodeSelector") or {})
    for key in ("kubernetes.io/hostname", "node.kubernetes.io/windows-build"):
        if key in node.labels:
            selector[key] = node.labels[key]
    spec["nodeSelector"] = selector
    if "kubernetes.io/hostname" not in selector:  # pin through the scheduler all the same: webhooks rely on it
        spec["affinity"] = _by_name(node.name)
    return made


def fit(spec: Obj, node: NodeFacts, images: Images) -> None:
    """Give a pod spec's containers the images for a node, and the pull secrets.

    HostProcess containers need no image of their node's build.
    """
    own_build = node.os == "windows" and not spec.get("hostNetwork")
    for container in spec["containers"]:
        image = windows_image(container["image"], node) if own_build else container["image"]
        container["image"] = mirrored(image, images.registry)
    if images.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in images.pull_secrets]


def on_node(name: str) -> Obj:
    """The node selector term that only one node matches, whatever its labels are."""
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}


def _by_name(node: str) -> Obj:
    terms = {"nodeSelectorTerms": [on_node(node)]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
