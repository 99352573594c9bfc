# SPDX-License-Identifier: Apache-2.0
"""Consent of a cluster's owner to changes that everybody on it feels: a label that only its owner can set."""

from conformance.kube.client import Kube
from conformance.kube.refused import ApiRefused

WHERE = "kube-system"
LABEL = "calico-conformance/cluster-disruptive"
VALUE = "allowed"
"""The namespace that bears the label; whoever may label it owns the cluster."""


def not_opted_in(kube: Kube) -> str:
    """Return why nothing may be changed that the whole cluster shares; empty: its owner opted in.

    Raise ApiUnreachable.
    """
    command = f"kubectl label namespace {WHERE} {LABEL}={VALUE}"
    try:
        found = kube.find("v1", "Namespace", WHERE) or {"metadata": {}}
    except ApiRefused as refusal:
        return f"whether the cluster's owner has opted in cannot be read ({refusal.message}); to opt in: {command}"
    if (found["metadata"].get("labels") or {}).get(LABEL) == VALUE:
        return ""
    return f"namespace {WHERE} lacks label {LABEL}={VALUE}, by which the cluster's owner opts in: {command}"
