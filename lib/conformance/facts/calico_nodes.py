# SPDX-License-Identifier: Apache-2.0
"""The version of Calico on each node, read from the pods of calico-node, and the edition of
Calico."""

import re
from collections.abc import Sequence

from conformance.facts.calico_workloads import CalicoWorkloads, pods, workloads
from conformance.facts.reading import Reading
from conformance.facts.workloads import all_containers, described
from conformance.kube.client import Obj
from conformance.kube.fields import list_at, value_at
from conformance.model.facts import Fact, NodeFacts

IMAGE = re.compile(
    r"(?:^|[/-])(?:node|node-windows|windows|hardened-calico):(?P<version>v?\d+\.\d[^@]*)"
)
"""Calico's node images: ``calico/node``, ``calico/node-windows``, ``calico/windows`` up to v3.26's
manifests, ``rancher/mirrored-calico-node``, ``rancher/hardened-calico``, ``tigera/cnx-node``."""
ENTERPRISE = re.compile(r"(?:/cnx-node|(?:^|/)tigera/node)(?:-windows)?[:@]")
"""Enterprise's own node images: ``tigera/cnx-node``, from Enterprise 3.22 on ``tigera/node``
(tigera/docs@f2a2762432b5:calico-enterprise_versioned_docs/version-3.22-2/releases.json)."""
ENTERPRISE_ONLY = (
    "images and the Installation show the version of Calico Enterprise, not of the Calico inside it"
)
EDITIONS = {
    "Calico": "Calico",
    "TigeraSecureEnterprise": "Calico Enterprise",
    "CalicoEnterprise": "Calico Enterprise",
}
"""Values of ``Installation.spec.variant``."""


def image_version(image: str) -> str | None:
    """Return the version in the tag of an image of Calico's node; None for another image, or for a
    tag that is no version."""
    found = IMAGE.search(image)
    return found["version"] if found else None


def versions(
    reading: Reading, nodes: Sequence[NodeFacts], found: CalicoWorkloads, cluster: Fact[str]
) -> dict[str, Fact[str]]:
    """Map each node to the version of Calico in its pod. If no node of the same operating system
    has such a pod, the DaemonSet's version counts. Without pod and DaemonSet the version is
    unknown: the API shows no version of Calico on Windows nodes where Calico runs as services, or
    in a process of the distribution. ``cluster``: the version of Calico on which Calico Enterprise
    is built.
    """
    there = [pod for pod in pods(reading, found) if pod["metadata"]["name"].startswith(found.names)]
    having = {value_at(pod, "spec", "nodeName") for pod in there}
    observed = {node.os for node in nodes if node.name in having}
    return {
        node.name: _version(node, there, reading, None if node.os in observed else found, cluster)
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
    if not images:
        why = "" if there else reading.why.get("Pod", "")
        return Fact(None, f"not known: {why or f'no pod of calico-node is on node {node.name}'}")
    return _by_image(images, reading, cluster)


def _by_image(images: Sequence[tuple[str, str]], reading: Reading, cluster: Fact[str]) -> Fact[str]:
    """Return the version that an image of Calico's pod on the node names, else the operator's
    version."""
    is_enterprise = edition(reading).value == "Calico Enterprise"
    for image, where in images:
        version = image_version(image)
        if ENTERPRISE.search(image) or (is_enterprise and version):
            return Fact(
                cluster.value,
                f"{cluster.source}; image {image} of {where} belongs to Calico Enterprise",
            )
        if version:
            return Fact(version, f"image {image} of {where}")
    names = ", ".join(image for image, _ in images)
    rendered = value_at(
        reading.one("operator.tigera.io/v1", "Installation", "default"), "status", "calicoVersion"
    )
    if rendered and workloads(reading).of_the_operator:  # an ImageSet pins images by digest
        text = f"no image tag names a version: {names}"
        if is_enterprise or not image_version(f"node:{rendered}"):  # a branch: `master`
            return Fact(cluster.value, f"{cluster.source}; {text}")
        return Fact(str(rendered), f"Installation default .status.calicoVersion; {text}")
    return Fact(None, f"not known: no image tag of {images[0][1]} names a version: {names}")


def _images(containers: Sequence[Obj], where: str) -> list[tuple[str, str]]:
    """Return each container's image, and where the image was read."""
    return [(str(container.get("image")), where) for container in containers]


def edition(reading: Reading) -> Fact[str]:
    """Return ``Calico`` or ``Calico Enterprise``."""
    variant = value_at(
        reading.one("operator.tigera.io/v1", "Installation", "default"), "spec", "variant"
    )
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
