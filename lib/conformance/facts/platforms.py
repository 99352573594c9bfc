# SPDX-License-Identifier: Apache-2.0
"""Who provides the cluster, read from what each provider leaves in it."""

from collections.abc import Iterator, Sequence
from itertools import chain

from conformance.facts.reading import Reading
from conformance.kube.client import Obj
from conformance.kube.fields import mapping_at, value_at
from conformance.model.facts import Fact

INSTALLATION = ("operator.tigera.io/v1", "Installation", "default")
BY_LABEL = (
    ("eks.amazonaws.com/", "eks"),
    ("kubernetes.azure.com/", "aks"),
    ("cloud.google.com/gke-", "gke"),
    ("node.openshift.io/", "openshift"),
)
BY_VERSION = (("-eks-", "eks"), ("-gke.", "gke"), ("+rke2", "rke2"), ("+k3s", "k3s"))
BY_PROVIDER_ID = (("kind://", "kind"), ("aws://", "aws"), ("azure://", "azure"), ("gce://", "gce"))
"""The last three: self-managed on that cloud, when nothing above said that it is the cloud's own service."""
PROVIDERS = {
    "EKS": "eks",
    "AKS": "aks",
    "GKE": "gke",
    "OpenShift": "openshift",
    "RKE2": "rke2",
    "DockerEnterprise": "mke",
}
"""Values of ``Installation.spec.kubernetesProvider``; the operator cannot detect AKS by itself and is told."""


def platform(reading: Reading, groups: Sequence[str], git_version: str) -> Fact[str]:
    """``eks``, ``aks``, ``openshift``, ``gke``, ``rke2``, ``rke1``, ``k3s``, ``kind``, ``mke``, a cloud (``aws``,
    ``azure``, ``gce``) on which it is self-managed, or ``self-managed``.

    ``self-managed``: none of the marks of these is there, and the places where they would be could be read.
    """
    marks = chain(_of_the_cluster(reading, groups, git_version), _of_nodes(reading))
    if mark := next(marks, None):
        return mark
    if not reading.all("v1", "Node"):
        return Fact(None, f"not known: {reading.reason('Node')}")
    return Fact("self-managed", "no provider's label, annotation, API group or version mark")


def _of_the_cluster(
    reading: Reading, groups: Sequence[str], git_version: str
) -> Iterator[Fact[str]]:
    """Yield what the operator, the API groups and the version of Kubernetes name, in this order."""
    provider = value_at(reading.one(*INSTALLATION), "spec", "kubernetesProvider")
    if provider in PROVIDERS:
        yield Fact(PROVIDERS[provider], "Installation default .spec.kubernetesProvider")
    if any(group.startswith("config.openshift.io/") for group in groups):
        yield Fact("openshift", "API group config.openshift.io")
    for mark, name in BY_VERSION:
        if mark in git_version:
            yield Fact(name, f"/version gitVersion {git_version}")


def _of_nodes(reading: Reading) -> Iterator[Fact[str]]:
    """Yield what labels and annotations name, EKS' map of users, and then the nodes' clouds."""
    nodes = reading.all("v1", "Node")
    for node in nodes:
        yield from _of_node(node["metadata"])
    if reading.one("v1", "ConfigMap", "aws-auth", "kube-system"):
        yield Fact("eks", "ConfigMap kube-system/aws-auth")
    for node in nodes:
        provider_id = str(value_at(node, "spec", "providerID") or "")
        for mark, name in BY_PROVIDER_ID:
            if provider_id.startswith(mark):
                yield Fact(name, f"providerID {provider_id} of node {node['metadata']['name']}")


def _of_node(meta: Obj) -> Iterator[Fact[str]]:
    for mark, name in BY_LABEL:
        for label in mapping_at(meta, "labels"):
            if label.startswith(mark):
                yield Fact(name, f"label {label} of node {meta['name']}")
    if any(key.startswith("rke.cattle.io/") for key in mapping_at(meta, "annotations")):
        yield Fact("rke1", f"annotation rke.cattle.io of node {meta['name']}")
