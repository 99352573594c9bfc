# SPDX-License-Identifier: Apache-2.0
"""The provider of the cluster, recognized by the marks that each provider leaves in it."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from conformance.facts.reading import Reading
from conformance.kube.client import Obj
from conformance.kube.fields import mapping_at, value_at
from conformance.model.facts import Fact

INSTALLATION = ("operator.tigera.io/v1", "Installation", "default")
MARKS: dict[str, tuple[str, str]] = {
    "openshift": (
        r"API group config\.openshift\.io/",
        r"API group (?:security|route)\.openshift\.io/|label node\.openshift\.io/",
    ),
    "eks": (
        r"/version gitVersion .*-eks-",
        r"label eks\.amazonaws\.com/|ConfigMap kube-system/aws-auth|"
        r"API group (?:vpcresources\.k8s\.aws|metrics\.eks\.amazonaws\.com)/",
    ),
    "gke": (r"/version gitVersion .*-gke\.", r"label cloud\.google\.com/gke-|providerID gce:"),
    "rke2": (r"/version gitVersion .*\+rke2", r"/version"),
    "k3s": (r"/version gitVersion .*\+k3s", r"/version"),
    "aks": (
        r"label kubernetes\.azure\.com/cluster of",
        r"label kubernetes\.azure\.com/(?!cluster of)|providerID azure:",
    ),
    "rke1": (
        r"annotation rke\.cattle\.io/external-ip ",
        r"annotation rke\.cattle\.io/internal-ip ",
    ),
}
"""For each platform: the mark that it always has, and further marks. At least one of the further
marks is required, because a single mark may come from elsewhere. EKS Distro, from which other
vendors build clusters, has EKS' versions (aws/eks-distro
projects/kubernetes/kubernetes/build/lib/version.sh). Google's clusters on other clouds also have
``-gke.``. Virtual nodes bring Azure's labels into clusters of any platform. OpenShift's CRDs can be
installed anywhere. The builds of Kubernetes by RKE2 and k3s run nowhere else."""
BY_PROVIDER_ID = (("kind://", "kind"), ("aws://", "aws"), ("azure://", "azure"), ("gce://", "gce"))
"""The platform for each beginning of a node's providerID. The last three entries mean a
self-managed cluster on that cloud, if no mark of the cloud's own service is there."""
VIRTUAL = {"type": "virtual-kubelet", "eks.amazonaws.com/compute-type": "fargate"}
"""Labels of virtual nodes, which stand for machines of a cloud service: Azure Container Instances
and Fargate."""
PROVIDERS = {
    "EKS": "eks",
    "AKS": "aks",
    "GKE": "gke",
    "OpenShift": "openshift",
    "RKE2": "rke2",
    "DockerEnterprise": "mke",
}
"""Values of ``Installation.spec.kubernetesProvider``; the operator cannot detect AKS, so the user
sets the value for AKS."""


def platform(reading: Reading, groups: Sequence[str], git_version: str) -> Fact[str]:
    """Return the platform: ``eks``, ``aks``, ``openshift``, ``gke``, ``rke2``, ``rke1``, ``k3s``,
    ``kind``, ``mke``, or a cloud (``aws``, ``azure``, ``gce``) on which the cluster is
    self-managed.

    Return ``self-managed`` if no platform's mark is there, although all places with marks could be
    read.
    """
    provider = value_at(reading.one(*INSTALLATION), "spec", "kubernetesProvider")
    if provider in PROVIDERS:
        return Fact(PROVIDERS[provider], "Installation default .spec.kubernetesProvider")
    nodes = [one for one in reading.all("v1", "Node") if not virtual(mapping_at(one, "metadata"))]
    marks = [
        *(f"API group {group}" for group in groups),
        f"/version gitVersion {git_version}",
        *chain.from_iterable(map(_of_node, nodes)),
    ]
    if reading.one("v1", "ConfigMap", "aws-auth", "kube-system"):
        marks.append("ConfigMap kube-system/aws-auth")
    for name, wanted in MARKS.items():
        found = [next(filter(re.compile(one).match, marks), "") for one in wanted]
        if all(found):
            return Fact(name, ", ".join(dict.fromkeys(found)))
    return next(_of_clouds(marks), None) or (
        Fact("self-managed", "no provider's label, annotation, API group or version mark")
        if nodes
        else Fact(None, f"not known: {reading.reason('Node')}")
    )


def virtual(meta: Obj) -> str:
    """Return the label that marks a virtual node, which stands for machines of a cloud service; an
    empty string if the node is a machine."""
    labels = mapping_at(meta, "labels")
    return next(
        (f"label {key}={value}" for key, value in VIRTUAL.items() if labels.get(key) == value), ""
    )


def _of_node(node: Obj) -> Iterator[str]:
    """Yield every text of a node that may be a mark of a platform, with the node's name."""
    meta = node["metadata"]
    for kind in ("label", "annotation"):
        yield from (f"{kind} {key} of node {meta['name']}" for key in mapping_at(meta, f"{kind}s"))
    if provider_id := value_at(node, "spec", "providerID"):
        yield f"providerID {provider_id} of node {meta['name']}"


def _of_clouds(marks: Sequence[str]) -> Iterator[Fact[str]]:
    """Yield the cloud that a node's providerID names."""
    for mark in marks:
        yield from (
            Fact(name, mark)
            for start, name in BY_PROVIDER_ID
            if mark.startswith(f"providerID {start}")
        )
