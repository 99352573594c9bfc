# SPDX-License-Identifier: Apache-2.0
"""The owner of a cordon: a run marks each node that it cordons, and lifts only its own cordons."""

from collections.abc import Mapping
from typing import Any

from conformance.kube import guard
from conformance.kube.client import Obj
from conformance.kube.ownership import CORDON_ANNOTATION
from conformance.model.change import ObjectRef

LIFTED: Mapping[str, Any] = {
    "metadata": {"annotations": {CORDON_ANNOTATION: None}}, "spec": {"unschedulable": None}
}  # fmt: skip
"""The merge patch that uncordons a node and removes the mark."""


def marked(current: Obj, target: ObjectRef, patch: Mapping[str, Any], run: str) -> dict[str, Any]:
    """Return the patch to send. If a patch cordons a node, also write the run's name on the node,
    since the journal may be lost."""
    unschedulable = (
        (patch.get("spec") or {}).get("unschedulable") if target.kind == "Node" else None
    )
    if not unschedulable or (current.get("spec") or {}).get("unschedulable"):
        return dict(patch)
    return guard.merged(patch, {"metadata": {"annotations": {CORDON_ANNOTATION: run}}})  # type: ignore[no-any-return]


def cordoned_by(node: Obj | None) -> str:
    """Return the run that has cordoned a node; an empty string if no run has."""
    return str(
        (((node or {}).get("metadata") or {}).get("annotations") or {}).get(CORDON_ANNOTATION) or ""
    )
