# SPDX-License-Identifier: Apache-2.0
"""The identity of the cluster, and the versions of Calico and related software on each node.

They are for reports only: no verdict depends on them. Reports leave out data that the run may not
read, and name it.
"""

from collections.abc import Iterator

from conformance.facts.reading import Reading
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import list_at, value_at
from conformance.kube.pod_state import container_statuses
from conformance.model.installed import Component, Installed

NAMESPACES = ("calico-system", "calico-apiserver", "tigera-operator", "kube-system", "kube-flannel")
WORKLOADS = frozenset({
    "calico-node", "calico-node-windows", "calico-typha", "calico-kube-controllers", "calico-apiserver",
    "tigera-operator", "kube-proxy", "kube-proxy-windows", "aws-node", "azure-cns", "azure-cns-win", "azure-npm",
    "kube-flannel-ds", "kube-flannel-ds-windows-amd64",
})  # fmt: skip


def installed(kube: Kube) -> Installed:
    """Read the identity and the versions. Raise ApiUnreachable."""
    reading = Reading(kube)
    system = reading.one("v1", "Namespace", "kube-system")
    pods = [pod for namespace in NAMESPACES for pod in reading.all("v1", "Pod", namespace)]
    nodes = reading.all("v1", "Node")
    return Installed(
        cluster_uid=str(system["metadata"].get("uid") or "") if system else "",
        components=components(pods),
        kubelets={
            node["metadata"]["name"]: str(version)
            for node in sorted(nodes, key=lambda one: str(one["metadata"]["name"]))
            if (version := value_at(node, "status", "nodeInfo", "kubeletVersion"))
        },
        unread=tuple(reading.why.values()),
    )


def components(pods: list[Obj]) -> tuple[Component, ...]:
    """Return a component for each image that a container of a known workload ran, with the nodes on
    which it ran."""
    found: dict[tuple[str, str, str, str], set[str]] = {}
    for pod in pods:
        workload = owner(pod)
        if workload in WORKLOADS:
            for container, image, digest in _ran(pod):
                node = value_at(pod, "spec", "nodeName") or ""
                found.setdefault((workload, container, image, digest), set()).update({node} - {""})
    return tuple(
        Component(
            workload=workload,
            container=container,
            image=image,
            version=tag(image),
            digest=digest,
            nodes=tuple(sorted(nodes)),
        )
        for (workload, container, image, digest), nodes in sorted(found.items())
    )


def owner(pod: Obj) -> str:
    """Return the name of the DaemonSet or Deployment that a pod belongs to; an empty string if it
    belongs to none."""
    for reference in list_at(pod, "metadata", "ownerReferences"):
        name = str(reference.get("name") or "")
        if reference.get("kind") == "DaemonSet":
            return name
        if reference.get("kind") == "ReplicaSet":
            return name.rpartition("-")[0]
    return ""


def tag(image: str) -> str:
    """Return the tag of an image, such as ``v3.31.2`` of
    ``quay.io/calico/node:v3.31.2@sha256:...``; an empty string if there is no tag."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def _ran(pod: Obj) -> Iterator[tuple[str, str, str]]:
    """Yield name, image and digest of each container that a pod has started."""
    named = {
        container["name"]: str(container.get("image") or "")
        for kind in ("initContainers", "containers")
        for container in list_at(pod, "spec", kind)
    }
    for container_status in container_statuses(pod):
        digest = str(container_status.get("imageID") or "").rpartition("@")[2]
        if container_status.get("name") in named:
            yield (
                container_status["name"],
                named[container_status["name"]],
                digest if digest.startswith("sha256:") else "",
            )
