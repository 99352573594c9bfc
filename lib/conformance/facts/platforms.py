"""Who provides the cluster, read from what each provider leaves in it."""

from collections.abc import Sequence

from conformance.facts.reading import Reading
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
    installation = reading.one(*INSTALLATION)
    provider = ((installation or {}).get("spec") or {}).get("kubernetesProvider")
    if provider in PROVIDERS:
        return Fact(PROVIDERS[provider], "Installation default .spec.kubernetesProvider")
    if any(group.startswith("config.openshift.io/") for group in groups):
        return Fact("openshift", "API group config.openshift.io")
    for mark, name in BY_VERSION:
        if mark in git_version:
            return Fact(name, f"/version gitVersion {git_version}")
    nodes = reading.all("v1", "Node")
    for node in nodes:
        meta = node["metadata"]
        for mark, name in BY_LABEL:
            label = next((key for key in meta.get("labels") or {} if key.startswith(mark)), None)
            if label:
                return Fact(name, f"label {label} of node {meta['name']}")
        if any(key.startswith("rke.cattle.io/") for key in meta.get("annotations") or {}):
            return Fact("rke1", f"annotation rke.cattle.io of node {meta['name']}")
    if reading.one("v1", "ConfigMap", "aws-auth", "kube-system"):
        return Fact("eks", "ConfigMap kube-system/aws-auth")
    for node in nodes:
        provider_id = str((node.get("spec") or {}).get("providerID") or "")
        for mark, name in BY_PROVIDER_ID:
            if provider_id.startswith(mark):
                return Fact(name, f"providerID {provider_id} of node {node['metadata']['name']}")
    if not nodes:
        return Fact(None, f"not known: {reading.reason('Node')}")
    return Fact("self-managed", "no provider's label, annotation, API group or version mark")
