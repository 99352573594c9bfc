# SPDX-License-Identifier: Apache-2.0
"""Objects of Calico and Kubernetes that a test has applied and not yet removed."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from conformance.errors import MissingCapability
from conformance.facts.calico_api import CalicoApi
from conformance.kube.changes import Changes
from conformance.kube.client import Obj
from conformance.model.change import ObjectRef

GROUP = "projectcalico.org/"


@dataclass
class AppliedObjects:
    """Applies objects and removes them again; every write is guarded."""

    changes: Changes
    calico: Callable[[], CalicoApi]
    removed_within: float
    """Seconds within which the object must be gone, if the caller waits for its removal."""
    record_removal: Callable[[str], object] = lambda label: None
    """Called with the name of each object that was removed."""
    objects: dict[ObjectRef, Obj] = field(default_factory=dict)
    times: dict[ObjectRef, float] = field(default_factory=dict)
    """Time of each object's newest application (``time.monotonic``)."""

    def apply(self, target: ObjectRef, obj: Obj, why: str) -> None:
        """Create or update an object.

        Raise MissingCapability (Calico's objects cannot be written here), GuardRefused,
        ApiRefused."""
        self.times[target] = time.monotonic()
        self.objects[target] = obj  # before the request, whose answer may be lost
        try:
            self._writer(target).apply(obj, why, namespace=target.namespace)
        except MissingCapability:  # nothing was written, so there is nothing to delete
            del self.objects[target]
            raise

    def remove(self, target: ObjectRef, why: str, *, wait: bool) -> None:
        """Delete an object and, with ``wait``, wait until it is gone. Raise EnvironmentBroken if
        it stays.
        """
        self._writer(target).delete(target, why)
        is_served = self.changes.kube.discovery.serves
        if wait and not self.changes.dry_run and is_served(target.api_version, target.kind):
            self.changes.waits.gone(target, within=self.removed_within)
        del self.objects[target]
        self.record_removal(target.label)

    def _writer(self, target: ObjectRef) -> CalicoApi | Changes:
        return self.calico() if target.api_version.startswith(GROUP) else self.changes
