# SPDX-License-Identifier: Apache-2.0
"""Labels and annotations of the run's own pods and namespaces, changed while a test runs and
restored after it."""

from collections.abc import Callable, Iterable, Sequence

from conformance.errors import SuiteError
from conformance.kube.changes import Changes
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef
from conformance.model.endpoint import Workload

IRRELEVANT = "conformance/irrelevant"
PASSING = "conformance/passing"
"""Keys that no policy selects."""
GUEST = "conformance/guest"
"""The key by which policies of ``policy/members`` and ``policy/resets/membership-*.yaml`` select
guests."""


class Relabel:
    """The label changes of a test."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._made: dict[ObjectRef, dict[str, dict[str, None]]] = {}
        """The patch that removes all labels that an object was given, by object."""

    def label_as_guest(self, *guests: Workload) -> None:
        """Give pods the label of guests."""
        for pod in guests:
            self._change(pod_reference(pod), GUEST, "welcome")

    def add_irrelevant_label(self, *pods: Workload) -> None:
        """Give pods a label and an annotation that no policy selects."""
        self._mark(map(pod_reference, pods))

    def undo(self) -> None:
        """Remove every label and annotation that was added. Continue after a failure, and raise the
        first failure at the end."""
        failures: list[SuiteError] = []
        for target, given in reversed(list(self._made.items())):
            try:
                self._changes.patch(target, {"metadata": given}, "its test is over")
            except SuiteError as error:
                if not (
                    isinstance(error, ApiRefused) and error.not_found
                ):  # the pod is gone, and its label with it
                    failures.append(error)
                    continue
            del self._made[target]
        if failures:
            raise failures[0]

    def _mark(self, targets: Iterable[ObjectRef]) -> None:
        for target in targets:
            self._change(target, IRRELEVANT, "yes", fields=("labels", "annotations"))

    def _change(
        self,
        target: ObjectRef,
        key: str,
        value: str | None,
        *,
        fields: tuple[str, ...] = ("labels",),
    ) -> None:
        made = self._made.setdefault(target, {})  # noted first, since the answer may be lost
        for field in fields:
            made.setdefault(field, {})[key] = None
        why = f"the test's change of {' and '.join(fields)} of a {target.kind.lower()}"
        self._changes.patch(target, {"metadata": {field: {key: value} for field in fields}}, why)


class RelabelNamespaces(Relabel):
    """The label changes of a test that changes labels of namespaces, too."""

    def invite(self, *guests: Workload, all_of: Sequence[Workload]) -> None:
        """Give the label of guests to the pods ``guests``, and to the namespaces of the pods
        ``all_of``."""
        self.label_as_guest(*guests)
        for namespace in _namespaces(all_of):
            self._change(namespace, GUEST, "welcome")

    def add_irrelevant_labels(self, *pods: Workload, after: Callable[[], object] = list) -> None:
        """Add labels to pods, their namespaces and accounts, after the action ``after``.

        Each of these objects also gets another label, which is removed at once.
        """
        after()
        homes = _namespaces(pods)
        homes_labels = [
            ObjectRef(api_version="v1", kind="ServiceAccount", name="default", namespace=home.name)
            for home in homes
        ]
        marked = [*map(pod_reference, pods), *homes, *homes_labels]
        self._mark(marked)
        for value in ("yes", None):
            for target in marked:
                self._change(target, PASSING, value)


def pod_reference(pod: Workload) -> ObjectRef:
    """Return the API object of a pod."""
    return ObjectRef(api_version="v1", kind="Pod", name=pod.pod, namespace=pod.namespace)


def _namespaces(pods: Sequence[Workload]) -> list[ObjectRef]:
    """Return the namespaces of the pods, each once."""
    named = dict.fromkeys(pod.namespace for pod in pods)
    return [ObjectRef(api_version="v1", kind="Namespace", name=name) for name in named]
