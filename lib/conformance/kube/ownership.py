"""Whose a thing is: the labels on everything that a run creates, and the names of its namespaces."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

RUN_LABEL = "calico-conformance/run"
"""On every object of a run, its namespaces and pods included: what selectors of cluster-scoped policies must name."""
WORKER_LABEL = "calico-conformance/worker"
PROCESS_ANNOTATION = "calico-conformance/process"
"""How one can tell whether the run is still alive; see conformance.cluster.alive."""
CORDON_ANNOTATION = "calico-conformance/cordoned"
"""On a node that a run has made unschedulable: which run."""
MANAGED_BY = ("app.kubernetes.io/managed-by", "calico-windows-conformance")
NAMESPACE_PREFIX = "calico-demo-"


@dataclass(frozen=True)
class Ownership:
    """One run (a short lower-case id) and the xdist worker that speaks (``gw0``, or ``main``)."""

    run: str
    worker: str = "main"
    process: str = ""
    """Value of PROCESS_ANNOTATION on everything this worker creates; empty: none."""

    @property
    def namespace(self) -> str:
        """The worker's own namespace, ``calico-demo-<run>-<worker>``."""
        return f"{NAMESPACE_PREFIX}{self.run}-{self.worker}"

    @property
    def labels(self) -> dict[str, str]:
        """Labels of everything this worker creates."""
        return {MANAGED_BY[0]: MANAGED_BY[1], RUN_LABEL: self.run, WORKER_LABEL: self.worker}

    def has_namespace(self, name: str | None) -> bool:
        """Whether a namespace is one of this run's, by its name (any worker's)."""
        return bool(name) and str(name).startswith(f"{NAMESPACE_PREFIX}{self.run}-")

    def owns(self, obj: dict[str, Any]) -> bool:
        """Whether an object carries this run's labels."""
        labels = (obj.get("metadata") or {}).get("labels") or {}
        return bool(labels.get(RUN_LABEL) == self.run and labels.get(MANAGED_BY[0]) == MANAGED_BY[1])

    def sign(self, obj: dict[str, Any]) -> dict[str, Any]:
        """A copy of an object with the labels; of a workload also its pod template."""
        signed = copy.deepcopy(obj)
        self._label(signed)
        if self.process:
            meta = signed["metadata"]
            meta["annotations"] = {**(meta.get("annotations") or {}), PROCESS_ANNOTATION: self.process}
        template = (signed.get("spec") or {}).get("template")
        if signed.get("kind") in ("Deployment", "DaemonSet", "Job") and isinstance(template, dict):
            self._label(template)
        return signed

    def _label(self, holder: dict[str, Any]) -> None:
        meta = holder.setdefault("metadata", {})
        meta["labels"] = {**(meta.get("labels") or {}), **self.labels}


class Shared(Ownership):
    """What all runs share: labelled as this suite's and as no run's, so that no run's clearing up takes it away."""

    @property
    def labels(self) -> dict[str, str]:
        """Labels of everything that is made in this name."""
        return {MANAGED_BY[0]: MANAGED_BY[1]}
