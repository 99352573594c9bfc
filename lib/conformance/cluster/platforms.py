"""Who provides the cluster, read from what each provider leaves in it."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.cluster.reading import Reading
from conformance.model.facts import Fact

INSTALLATION = ("operator.tigera.io/v1", "Installation", "default")
BY_LABEL = (
    ("eks.amazonaws.com/", "EKS"),
    ("kubernetes.azure.com/", "AKS"),
    ("cloud.google.com/gke-", "GKE"),
    ("node.openshift.io/", "OpenShift"),
)
BY_VERSION = (("-eks-", "EKS"), ("-gke.", "GKE"), ("+rke2", "RKE2"), ("+k3s", "k3s"))
BY_PROVIDER_ID = (("kind://", "kind"),)
PROVIDERS = {
    "EKS": "EKS",
    "AKS": "AKS",
    "GKE": "GKE",
    "OpenShift": "OpenShift",
    "RKE2": "RKE2",
    "DockerEnterprise": "MKE",
}
"""Values of ``Installation.spec.kubernetesProvider``; the operator cannot detect AKS by itself and is told."""


def platform(reading: Reading, groups: Sequence[str], git_version: str) -> Fact[str]:
    """``EKS``, ``AKS``, ``OpenShift``, ``GKE``, ``RKE2``, ``RKE1``, ``k3s``, ``kind``, ``MKE``, or ``self-managed``.

    ``self-managed``: none of the marks of these is there, and the places where they would be could be read.
    """
    installation = reading.one(*INSTALLATION)
    provider = ((installation or {}).get("spec") or {}).get("kubernetesProvider")
    if provider in PROVIDERS:
        return Fact(PROVIDERS[provider], "Installation default .spec.kubernetesProvider")
    if any(one.startswith("config.openshift.io/") for one in groups):
        return Fact("OpenShift", "API group config.openshift.io")
    for mark, name in BY_VERSION:
        if mark in git_version:
            return Fact(name, f"/version gitVersion {git_version}")
    nodes = reading.all("v1", "Node")
    for node in nodes:
        meta, spec = node["metadata"], node.get("spec") or {}
        for mark, name in BY_LABEL:
            label = next((key for key in meta.get("labels") or {} if key.startswith(mark)), None)
            if label:
                return Fact(name, f"label {label} of node {meta['name']}")
        if any(key.startswith("rke.cattle.io/") for key in meta.get("annotations") or {}):
            return Fact("RKE1", f"annotation rke.cattle.io of node {meta['name']}")
        for mark, name in BY_PROVIDER_ID:
            if str(spec.get("providerID") or "").startswith(mark):
                return Fact(name, f"providerID of node {meta['name']}")
    if reading.one("v1", "ConfigMap", "aws-auth", "kube-system"):
        return Fact("EKS", "ConfigMap kube-system/aws-auth")
    if not nodes:
        return Fact(None, f"not known: {reading.reason('Node')}")
    return Fact("self-managed", "no provider's label, annotation, API group or version mark")
