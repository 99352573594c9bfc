# SPDX-License-Identifier: Apache-2.0
"""The consent of a cluster's owner to changes that affect all users of the cluster: a label that
only the owner can set."""

from conformance.kube.client import Kube
from conformance.kube.refused import ApiRefused

WHERE = "kube-system"
LABEL = "calico-conformance/cluster-disruptive"
VALUE = "allowed"
"""The value of the label on the namespace; only an owner of the cluster may set it."""


def not_opted_in(kube: Kube) -> str:
    """Return the reason why the run may make no cluster-wide change; an empty string if the owner
    has opted in.

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
