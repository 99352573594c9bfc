# SPDX-License-Identifier: Apache-2.0
"""Checks before a change that affects the whole cluster: Calico works, and no other program manages
the setting that is about to change. A refusal raises MissingCapability, since nothing was changed.
"""

from collections.abc import Iterator

from conformance.disrupt.felix import NAMESPACES
from conformance.errors import MissingCapability
from conformance.kube.client import FIELD_MANAGER, Kube
from conformance.kube.fields import list_at, mapping_at, value_at

CALICO_NODES = ("calico-node", "calico-node-windows")
FELIX_CONFIGURATIONS = ("projectcalico.org/v3", "crd.projectcalico.org/v1")
"""The APIs from which the managers (``managedFields``) of the FelixConfiguration are read. Calico's
API server hides the managers; the CRD shows them."""
STATUS = "operator.tigera.io/v1"
ALLOWED = ("calico", "apiserver", "operator", "tigera", "kubectl-edit", "kubectl-patch")
"""Beginnings of the names of managers that revert nothing: Calico's own managers, which set
defaults, and commands that people type."""
VNI = ("f:spec", "f:vxlanVNI")


def refuse_unwell(kube: Kube) -> None:
    """Raise MissingCapability while Calico reports a problem or is being rolled out."""
    if found := [*_daemonsets(kube), *_statuses(kube)]:
        raise MissingCapability(
            f"the run changes nothing while Calico is not healthy: {'; '.join(found)}",
            "wait until Calico is healthy, or repair it first",
        )


def refuse_other_managers(kube: Kube) -> None:
    """Raise MissingCapability if another program manages the VNI and would revert a change."""
    for api in FELIX_CONFIGURATIONS:
        if not kube.discovery.serves(api, "FelixConfiguration"):
            continue
        found = kube.find(api, "FelixConfiguration", "default")
        for entry in list_at(found, "metadata", "managedFields"):
            manager = str(entry.get("manager") or "")
            owns = value_at(entry, "fieldsV1", *VNI) is not None
            if owns and manager != FIELD_MANAGER and not manager.startswith(ALLOWED):
                raise MissingCapability(
                    f"{manager} manages vxlanVNI of FelixConfiguration default ({api}), and would revert it",
                    f"suspend {manager} for the run, or remove vxlanVNI from the "
                    "configuration that it applies",
                )


def _daemonsets(kube: Kube) -> Iterator[str]:
    for namespace in NAMESPACES:
        for name in CALICO_NODES:
            status = mapping_at(kube.find("apps/v1", "DaemonSet", name, namespace), "status")
            wanted = int(status.get("desiredNumberScheduled") or 0)
            for count, word in (("numberReady", "ready"), ("updatedNumberScheduled", "up to date")):
                have = int(status.get(count) or 0)
                if have < wanted:
                    yield f"DaemonSet {namespace}/{name} has {have} of {wanted} pods {word}"


def _statuses(kube: Kube) -> Iterator[str]:
    if not kube.discovery.serves(STATUS, "TigeraStatus"):
        return
    for obj in kube.objects(STATUS, "TigeraStatus"):
        for condition in list_at(obj, "status", "conditions"):
            kind = condition.get("type")
            on = condition.get("status") == "True"
            if (kind in ("Degraded", "Progressing") and on) or (kind == "Available" and not on):
                detail = condition.get("message") or condition.get("reason") or "no message"
                word = kind if on else f"not {kind}"
                yield f"TigeraStatus {obj['metadata']['name']} is {word}: {' '.join(str(detail).split())}"
