# SPDX-License-Identifier: Apache-2.0
"""Which Calico runs on each node, as the pods of calico-node that are there say it; and which
edition of Calico."""

import re
from collections.abc import Sequence

from conformance.facts.calico_workloads import LINUX, CalicoWorkloads, pods, workloads
from conformance.facts.reading import Reading
from conformance.facts.workloads import all_containers, described
from conformance.kube.client import Obj
from conformance.kube.fields import list_at, value_at
from conformance.model.facts import Fact, NodeFacts

IMAGE = re.compile(r"(?:^|[/-])(?:node|node-windows|windows):(?P<version>v\d[^@]*)")
"""Calico's node images: ``calico/node``, ``calico/node-windows``, ``calico/windows`` up to v3.26's
manifests, ``rancher/mirrored-calico-node``, ``tigera/cnx-node``."""
ENTERPRISE = re.compile(r"/cnx-node(?:-windows)?[:@]")
ENTERPRISE_ONLY = (
    "images and Installation tell Enterprise's own version, not that of the Calico inside"
)
EDITIONS = {
    "Calico": "Calico",
    "TigeraSecureEnterprise": "Calico Enterprise",
    "CalicoEnterprise": "Calico Enterprise",
}
"""Values of ``Installation.spec.variant``."""


def image_version(image: str) -> str | None:
    """The version in the tag of one of Calico's node images; None: another image, or a tag that is
    no version."""
    found = IMAGE.search(image)
    return found["version"] if found else None


def versions(
    reading: Reading, nodes: Sequence[NodeFacts], found: CalicoWorkloads, cluster: Fact[str]
) -> dict[str, Fact[str]]:
    """Node to the version of Calico in its pod, else, where no node of its system has a pod, in the
    DaemonSet.

    Where there is neither it is not known: Windows nodes on which Calico runs as services, or in a
    process of the distribution, say nothing by the API.  ``cluster``: the version that Calico
    Enterprise is built on.
    """
    windows = [found.windows["metadata"]["name"]] if found.windows else []
    starts = tuple(f"{name}-" for name in (*LINUX, *windows))
    there = [pod for pod in pods(reading, found) if pod["metadata"]["name"].startswith(starts)]
    having = {value_at(pod, "spec", "nodeName") for pod in there}
    seen = {node.os for node in nodes if node.name in having}
    return {
        node.name: _version(node, there, reading, None if node.os in seen else found, cluster)
        for node in nodes
    }


def _version(
    node: NodeFacts,
    there: Sequence[Obj],
    reading: Reading,
    found: CalicoWorkloads | None,
    cluster: Fact[str],
) -> Fact[str]:
    here = [pod for pod in there if value_at(pod, "spec", "nodeName") == node.name]
    images = [
        image
        for pod in here
        for image in _images(
            list_at(pod, "spec", "containers"),
            f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}",
        )
    ]
    if not here and found:
        workload = found.windows if node.os == "windows" else found.linux
        images = _images(all_containers(workload), described(workload))
    for image, where in images:
        if ENTERPRISE.search(image):
            return Fact(
                cluster.value, f"{cluster.source}; image {image} of {where} is Enterprise's"
            )
        if version := image_version(image):
            return Fact(version, f"image {image} of {where}")
    if here:
        names = ", ".join(image for image, _ in images)
        return Fact(None, f"not known: {images[0][1]} has {names}, which names no version")
    why = "" if there else reading.why.get("Pod", "")
    return Fact(None, f"not known: {why or f'no pod of calico-node is on node {node.name}'}")


def _images(containers: Sequence[Obj], where: str) -> list[tuple[str, str]]:
    """Return the image of each container, with the name of what has it."""
    return [(str(container.get("image")), where) for container in containers]


def edition(reading: Reading) -> Fact[str]:
    """``Calico`` or ``Calico Enterprise``."""
    installation = reading.one("operator.tigera.io/v1", "Installation", "default")
    variant = value_at(installation, "spec", "variant")
    if variant in EDITIONS:
        return Fact(EDITIONS[variant], "Installation default .spec.variant")
    information, api = reading.first(
        "ClusterInformation", "default", "projectcalico.org/v3", "crd.projectcalico.org/v1"
    )
    if value_at(information, "spec", "cnxVersion"):
        return Fact("Calico Enterprise", f"ClusterInformation default .spec.cnxVersion ({api})")
    found = workloads(reading)
    for daemonset in (found.linux, found.windows):
        images = [str(container.get("image")) for container in all_containers(daemonset)]
        if any(ENTERPRISE.search(image) for image in images):
            return Fact("Calico Enterprise", f"images of {described(daemonset)}")
        if any(image_version(image) for image in images):
            return Fact("Calico", f"images of {described(daemonset)}")
    why = reading.reason("Installation default", "ClusterInformation default", "DaemonSet")
    return Fact(None, f"not known: {why}")
