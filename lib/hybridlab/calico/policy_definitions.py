# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions of the network-policy-api that Calico's release installs."""

from collections.abc import Iterator
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.policy.release import Release

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
GROUP = "policy.networking.k8s.io"
APPROVED = "https://github.com/kubernetes-sigs/network-policy-api/pull/30"
"""The approval in the definitions' annotation: Kubernetes requires it for API groups of its own."""
_RULE_LISTS = ("ingress", "egress")


def policy_kinds(release: Release) -> tuple[tuple[str, str, str, str], ...]:
    """Return the kinds of the network-policy-api, as (version, kind, plural, short name)."""
    if release.has_cluster_network_policy:
        return (("v1alpha2", "ClusterNetworkPolicy", "clusternetworkpolicies", "cnp"),)
    return (
        ("v1alpha1", "AdminNetworkPolicy", "adminnetworkpolicies", "anp"),
        ("v1alpha1", "BaselineAdminNetworkPolicy", "baselineadminnetworkpolicies", "banp"),
    )


def policy_definitions(release: Release) -> Iterator[Obj]:
    """Yield the definitions. Their schemas contain only the required fields; the conversion checks
    everything else."""
    for version, kind, plural, short in policy_kinds(release):
        served = {
            "name": version,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": _schema(kind)},
        }
        names = {
            "kind": kind,
            "listKind": f"{kind}List",
            "plural": plural,
            "singular": kind.lower(),
            "shortNames": [short],
        }
        yield {
            "metadata": {
                "name": f"{plural}.{GROUP}",
                "annotations": {"api-approved.kubernetes.io": APPROVED},
            },
            "spec": {"group": GROUP, "names": names, "scope": "Cluster", "versions": [served]},
        }


def _schema(kind: str) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec: dict[str, Any] = {
        "type": "object",
        "required": ["subject"],
        "properties": {
            "subject": anything,
            **{name: {"type": "array", "items": anything} for name in _RULE_LISTS},
        },
    }
    if kind != "BaselineAdminNetworkPolicy":
        spec["required"].append("priority")
        spec["properties"]["priority"] = {"type": "integer", "minimum": 0, "maximum": 1000}
    if kind == "ClusterNetworkPolicy":
        spec["required"].append("tier")
        spec["properties"]["tier"] = {"type": "string", "enum": ["Admin", "Baseline"]}
    return {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": anything,
        },
    }
