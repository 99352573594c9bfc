# SPDX-License-Identifier: Apache-2.0
"""Changes that other users make to a worker's own objects: its policies, its Services, and labels
of its namespaces."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from conformance.errors import SuiteError
from conformance.foreign.snapshot import DECIDING, Snapshot, policy_of
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import labels_of
from conformance.model.change import ObjectRef
from conformance.model.endpoint import Target
from conformance.policy.foreign import ForeignPolicy


@dataclass(frozen=True)
class Interference:
    """Compares a worker's objects with the objects as the worker made them.

    Each object is read once. For a new reading, make a new comparison.
    """

    kube: Kube
    changes: Changes
    _found: dict[tuple[str, str, str | None], Obj | SuiteError | None] = field(default_factory=dict)

    def policies(self, snapshot: Snapshot) -> list[tuple[str, ForeignPolicy]]:
        """Describe each edit and deletion of a policy by another user, with the policy before and
        after.

        Return nothing if any kind of policy could not be read.
        """
        present = {policy.uid: policy for policy, _ in snapshot.policies}
        found = list[tuple[str, ForeignPolicy]]()
        for target, obj in [] if snapshot.unread else list(self.changes.kept.items()):
            made = policy_of(target.api_version, target.kind, obj, {})
            left = present.get(made.uid, made if target.kind not in DECIDING else None)
            if left is None:
                found.append((f"deletion of {made.label} by another user", made))
            elif left.spec != made.spec and left.version.partition("/")[0] != made.version:
                # for the same version, the API server may return the same spec in another form
                found += [
                    (f"edit of {made.label} by another user", policy) for policy in (made, left)
                ]
        return found

    def services(self, target: Target) -> list[str]:
        """Describe each edit and deletion, by another user, of a Service that leads to the
        target."""
        spaces = {pod.namespace for pod in target.backends}
        found = []
        for ref, made in list(self.changes.kept.items()):
            is_called = ref.name in target.name.split() and ref.namespace in spaces
            if ref.kind != "Service" or not is_called:
                continue
            left = self._find("Service", ref.name, ref.namespace)
            if isinstance(left, SuiteError):
                continue
            if left is None or left.get("spec") != made.get("spec"):
                found.append(f"{'edit' if left else 'deletion'} of {ref.label} by another user")
        return found

    def relabelled(self, namespaces: Iterable[str]) -> bool:
        """Return whether one of these namespaces has other labels than the worker gave it."""
        pairs = [(self.made(name), self.read("Namespace", name)) for name in set(namespaces)]
        return any(made and now and labels_of(made) != labels_of(now) for made, now in pairs)

    def made(self, namespace: str) -> Obj | None:
        """Return a namespace as the worker made it; None if the worker did not make it."""
        return self.changes.kept.get(ObjectRef(api_version="v1", kind="Namespace", name=namespace))

    def read(self, kind: str, name: str, namespace: str | None = None) -> Obj | None:
        """Return an object of the core API; None if it does not exist or cannot be read."""
        found = self._find(kind, name, namespace)
        return None if isinstance(found, SuiteError) else found

    def _find(self, kind: str, name: str, namespace: str | None) -> Obj | SuiteError | None:
        """Return an object of the core API, or the error if it cannot be read."""
        key = (kind, name, namespace)
        if key not in self._found:
            try:
                self._found[key] = self.kube.find("v1", kind, name, namespace)
            except SuiteError as error:
                self._found[key] = error
        return self._found[key]
