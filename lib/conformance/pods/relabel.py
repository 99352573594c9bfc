"""Labels and annotations of the run's own pods, changed while a test runs and put back after it."""

from __future__ import annotations

from conformance.errors import SuiteError
from conformance.kube.changes import Changes
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef
from conformance.model.endpoint import Workload

IRRELEVANT = "conformance/irrelevant"
"""A key that no policy selects."""
GUEST = "conformance/guest"
"""The key by which policies of ``policy/resets/membership.yaml`` know guests."""


class Relabel:
    """Of one test."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._made: list[tuple[ObjectRef, str, str]] = []

    def welcome(self, *guests: Workload) -> None:
        """Give pods the label by which guests are known."""
        for pod in guests:
            self._set(pod, "labels", GUEST, "welcome")

    def trifle(self, *pods: Workload) -> None:
        """Give pods a label that no policy selects, and an annotation: updates of the object that matter to nobody."""
        for pod in pods:
            self._set(pod, "labels", IRRELEVANT, "yes")
            self._set(pod, "annotations", IRRELEVANT, "yes")

    def undo(self) -> None:
        """Take away what was given, all that can be.  Raises what the first that could not be raised."""
        troubles: list[SuiteError] = []
        for made in reversed(list(self._made)):
            target, field, key = made
            try:
                self._changes.patch(target, {"metadata": {field: {key: None}}}, "its test is over")
            except SuiteError as trouble:
                if not (
                    isinstance(trouble, ApiRefused) and trouble.not_found
                ):  # with its pod the label is gone as well
                    troubles.append(trouble)
                    continue
            self._made.remove(made)
        if troubles:
            raise troubles[0]

    def _set(self, pod: Workload, field: str, key: str, value: str) -> None:
        target = ObjectRef(api_version="v1", kind="Pod", name=pod.pod, namespace=pod.namespace)
        self._made.append((target, field, key))  # before it is made: its answer may be lost
        self._changes.patch(target, {"metadata": {field: {key: value}}}, f"the test's change of {field} of a pod")
