"""The last look at a cluster: removes what a run's processes left when they were killed or ran out of time.

Only what carries the run's labels is touched.  What may not even be listed is left, and the caller says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.errors import SuiteTrouble
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import RUN_LABEL, Ownership
from conformance.model.change import ObjectRef

CLUSTER_SCOPED = (("projectcalico.org/v3", "GlobalNetworkPolicy"), ("v1", "Namespace"))
"""Kinds without a namespace that runs make, policies first: those concern others than the run."""


def leftovers(kube: Kube, run: str) -> Iterator[ObjectRef]:
    """What of a run is still there and not on its way out.  Raises ApiRefused, ApiUnreachable."""
    for api_version, kind in CLUSTER_SCOPED:
        if not kube.discovery.serves(api_version, kind):
            continue
        for one in kube.objects(api_version, kind, labels=f"{RUN_LABEL}={run}"):
            if not one["metadata"].get("deletionTimestamp"):
                yield ObjectRef(api_version=api_version, kind=kind, name=one["metadata"]["name"])


def sweep(kube: Kube, run: str, *, within: float) -> list[str]:
    """Remove it and wait until it is gone; one line per thing that was left, or why it could not be removed."""
    changes, told = Changes(kube, Ownership(run)), []
    try:
        found = list(leftovers(kube, run))
    except SuiteTrouble as trouble:
        return [f"whether anything of this run is left is not known: {trouble}"]
    for target in found:
        try:
            changes.delete(target, "its run is over")
        except SuiteTrouble as trouble:
            told.append(f"{target.label} was left, and could not be removed: {trouble}")
    for target in found:
        if any(line.startswith(f"{target.label} was left, and") for line in told):
            continue
        try:
            changes.waits.gone(target, within=within)
            told.append(f"{target.label} was left by a process that ended early, and is removed")
        except SuiteTrouble as trouble:
            told.append(f"{target.label} was left by a process that ended early: {trouble}")
    return told
