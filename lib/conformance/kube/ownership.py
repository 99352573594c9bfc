# SPDX-License-Identifier: Apache-2.0
"""The ownership of objects: the labels on everything that a run creates, and the names of its
namespaces."""

import contextlib
import copy
import json
from dataclasses import dataclass
from typing import Any

RUN_LABEL = "calico-conformance/run"
"""The label on every object of a run, including namespaces and pods; selectors of cluster-scoped
policies must name it."""
WORKER_LABEL = "calico-conformance/worker"
PROCESS_ANNOTATION = "calico-conformance/process"
"""The annotation by which other runs recognise whether the run is still alive
(conformance.journal.liveness)."""
CORDON_ANNOTATION = "calico-conformance/cordoned"
"""The annotation on a cordoned node that names the run which cordoned it."""
CHANGE_ANNOTATION = "calico-conformance/change-"
"""Beginning of the annotation's name by which a run marks changed objects; the key of the journal
entry follows."""
WATCH = "watch"
"""Worker name of the standing watch; no policy of a test may select its namespace."""
MANAGED_BY = ("app.kubernetes.io/managed-by", "calico-windows-conformance")
SYSTEM_NAMESPACE = "calico-conformance-system"
"""Namespace of the records that outlive a run."""
RUNNER_NAMESPACE = "calico-conformance"
"""Namespace of the suite's users, and of runs in the cluster."""
HOLDS_LABEL = "calico-conformance/holds"
"""The label on SYSTEM_NAMESPACE if manifests/rbac created it. No run removes such a namespace,
since the roles in it would be lost."""
NAMESPACE_PREFIX = "calico-demo-"
WORKERS = "gw"
"""Beginning of xdist's worker names.  A run without workers uses the first worker's prepared
namespaces."""
STORED_METADATA = "projectcalico.org/metadata"
"""Annotation of Calico's stored objects (crd.projectcalico.org/v1), written by calicoctl and
Calico's API server: the metadata that the user gave, as JSON. Depending on Calico's version, the
stored object itself has all or none of the user's labels and annotations (libcalico-go,
lib/backend/k8s/resources, ConvertCalicoResourceToK8sResource)."""


def removed_by_hand(run: str) -> str:
    """Return the commands that remove everything that a run has made; tiers come last, since a tier
    with a policy cannot be deleted."""
    label = f"{RUN_LABEL}={run}"
    return (
        f"kubectl delete namespace,globalnetworkpolicy -l {label} && kubectl delete tier -l {label}"
    )


def labels_of(obj: dict[str, Any]) -> dict[str, str]:
    """Return the labels that an object's maker gave it."""
    return _given(obj, "labels")


def annotations_of(obj: dict[str, Any]) -> dict[str, str]:
    """Return an object's annotations: the annotations of its maker, and later additions."""
    return _given(obj, "annotations")


def is_of(obj: dict[str, Any], run: str = "") -> bool:
    """Return whether an object's labels show that a run made it. An empty ``run`` means any run.

    Selectors should return no objects of other owners, but a broken API server may ignore
    selectors.
    """
    labels = labels_of(obj)
    is_named = labels.get(RUN_LABEL, "") == run
    return is_named if run else not is_named and labels.get(MANAGED_BY[0]) == MANAGED_BY[1]


def _given(obj: dict[str, Any], part: str) -> dict[str, str]:
    meta = obj.get("metadata") or {}
    found = dict(meta.get(part) or {})
    with contextlib.suppress(
        KeyError, ValueError, AttributeError, TypeError
    ):  # another program wrote an annotation of this name
        found |= json.loads((meta.get("annotations") or {})[STORED_METADATA]).get(part) or {}
    return found


@dataclass(frozen=True)
class Ownership:
    """A run (a short lower-case id) and its worker of xdist in this process (``gw0``, or
    ``main``)."""

    run: str
    worker: str = "main"
    process: str = ""
    """Value of PROCESS_ANNOTATION on everything this worker creates; empty if there is none."""
    prefix: str = ""
    """Beginning of the names of the namespaces that the cluster's owner prepared for the run; empty
    if the run makes its own namespaces."""

    @property
    def base(self) -> str:
        """Return the beginning of the names of all the run's namespaces, without the hyphen."""
        return self.prefix or f"{NAMESPACE_PREFIX}{self.run}"

    @property
    def namespace(self) -> str:
        """Return the worker's own namespace, ``calico-demo-<run>-<worker>``, or its prepared
        namespace, ``<prefix>-<worker>``. A run with one worker uses ``<prefix>-gw0``."""
        return (
            f"{self.base}-{f'{WORKERS}0' if self.prefix and self.worker == 'main' else self.worker}"
        )

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of everything that this worker creates."""
        return {MANAGED_BY[0]: MANAGED_BY[1], RUN_LABEL: self.run, WORKER_LABEL: self.worker}

    def has_namespace(self, name: str | None) -> bool:
        """Return whether a name is the name of a namespace of this run (of any worker)."""
        return bool(name) and str(name).startswith(f"{self.base}-")

    def is_watched(self, name: str | None, *, prefix: bool = False) -> bool:
        """Return whether a namespace (or prefix) belongs to the standing watch, and this process
        does not run the watch.
        """
        watch = f"{self.base}-{WATCH}"
        return self.worker != WATCH and (
            f"{name}".startswith(watch) or (prefix and watch.startswith(f"{name}"))
        )

    def owns(self, obj: dict[str, Any]) -> bool:
        labels = labels_of(obj)
        return bool(
            labels.get(RUN_LABEL) == self.run and labels.get(MANAGED_BY[0]) == MANAGED_BY[1]
        )

    def sign(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of an object with this worker's labels; a workload's pod template gets
        them, too."""
        signed = copy.deepcopy(obj)
        self._label(signed)
        if self.process:
            meta = signed["metadata"]
            meta["annotations"] = {
                **(meta.get("annotations") or {}),
                PROCESS_ANNOTATION: self.process,
            }
        template = (signed.get("spec") or {}).get("template")
        if signed.get("kind") in ("Deployment", "DaemonSet", "Job") and isinstance(template, dict):
            self._label(template)
        return signed

    def _label(self, holder: dict[str, Any]) -> None:
        meta = holder.setdefault("metadata", {})
        meta["labels"] = {**(meta.get("labels") or {}), **self.labels}


class Shared(Ownership):
    """The owner of objects that all runs share: they have this suite's label and no run's label, so
    no run's cleanup deletes them."""

    @property
    def labels(self) -> dict[str, str]:
        return {MANAGED_BY[0]: MANAGED_BY[1]}
