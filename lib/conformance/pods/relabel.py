"""Labels and annotations of the run's own pods and namespaces, changed while a test runs and put back after it."""

from collections.abc import Callable, Sequence

from conformance.errors import SuiteError
from conformance.kube.changes import Changes
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef
from conformance.model.endpoint import Workload

IRRELEVANT, PASSING = "conformance/irrelevant", "conformance/passing"
"""Keys that no policy selects."""
GUEST = "conformance/guest"
"""The key by which policies of ``policy/members`` and ``policy/resets/membership-*.yaml`` know guests."""


class Relabel:
    """The label changes of one test."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._made: list[tuple[ObjectRef, str, str]] = []

    def label_as_guest(self, *guests: Workload) -> None:
        """Give pods the label by which guests are known."""
        for pod in guests:
            self._change(_pod(pod), "labels", GUEST, "welcome")

    def invite(self, *guests: Workload, all_of: Sequence[Workload]) -> None:
        """Give that label to pods, and to the namespaces of others."""
        self.label_as_guest(*guests)
        for namespace in dict.fromkeys(pod.namespace for pod in all_of):
            self._change(ObjectRef(api_version="v1", kind="Namespace", name=namespace), "labels", GUEST, "welcome")

    def add_irrelevant_label(self, *pods: Workload) -> None:
        """Give pods a label and an annotation that no policy selects."""
        for pod in pods:
            self._mark(_pod(pod))

    def add_irrelevant_label_to_namespaces(self, *pods: Workload) -> None:
        """Give the namespaces of pods a label and an annotation that no policy selects."""
        for namespace in dict.fromkeys(pod.namespace for pod in pods):
            self._mark(ObjectRef(api_version="v1", kind="Namespace", name=namespace))

    def add_irrelevant_labels(self, *pods: Workload, after: Callable[[], object] = list) -> None:
        """To pods, their namespaces and accounts, ``after`` something is done; each has another label for a moment."""
        after()
        self.add_irrelevant_label(*pods)
        self.add_irrelevant_label_to_namespaces(*pods)
        for namespace in dict.fromkeys(pod.namespace for pod in pods):
            self._mark(ObjectRef(api_version="v1", kind="ServiceAccount", name="default", namespace=namespace))
        marked = dict.fromkeys(target for target, _, key in self._made if key == IRRELEVANT)
        for value in ("yes", None):
            for target in marked:
                self._change(target, "labels", PASSING, value)

    def undo(self) -> None:
        """Remove every label and annotation that was added, best effort.  Re-raises the first failure."""
        failures: list[SuiteError] = []
        for made in reversed(list(self._made)):
            target, field, key = made
            try:
                self._changes.patch(target, {"metadata": {field: {key: None}}}, "its test is over")
            except SuiteError as error:
                if not (isinstance(error, ApiRefused) and error.not_found):  # with its pod the label is gone as well
                    failures.append(error)
                    continue
            self._made.remove(made)
        if failures:
            raise failures[0]

    def _mark(self, target: ObjectRef) -> None:
        for field in ("labels", "annotations"):
            self._change(target, field, IRRELEVANT, "yes")

    def _change(self, target: ObjectRef, field: str, key: str, value: str | None) -> None:
        self._made.append((target, field, key))  # before it is made: its answer may be lost
        why = f"the test's change of {field} of a {target.kind.lower()}"
        self._changes.patch(target, {"metadata": {field: {key: value}}}, why)


def _pod(pod: Workload) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="Pod", name=pod.pod, namespace=pod.namespace)
