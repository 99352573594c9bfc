# SPDX-License-Identifier: Apache-2.0
"""Labels that a test adds are removed again, even if an answer is lost on the way or one pod
fails."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef
from conformance.pods.relabel import GUEST, IRRELEVANT, PASSING, Relabel, RelabelNamespaces
from tests.unit.conformance.builders import a_workload

A, B, C = (a_workload(name, namespace="demo") for name in "abc")


class Labels:
    """Pods' labels; patches of the pods in ``errors`` arrive or not, and are then refused."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, str]] = {"a": {}, "b": {}, "c": {}}
        self.errors: dict[str, tuple[int, bool]] = {}
        """Pod to the code of its next refusal, and whether the patch arrives all the same."""
        self.given: list[tuple[str, str, str | None]] = []
        """Name of an object, key and value, in the order in which they came."""

    def patch(self, target: ObjectRef, patch: dict[str, Any], why: str) -> None:
        code, arrives = self.errors.pop(target.name, (0, True))
        given = [
            (field, *one) for field, several in patch["metadata"].items() for one in several.items()
        ]
        for field, name, value in given:
            self.given.append((target.name, name, value))
            key = f"annotation {name}" if field == "annotations" else name
            if arrives and value is None:
                self.of[target.name].pop(key, None)
            elif arrives:
                self.of[target.name][key] = value
        if code:
            raise ApiRefused(code, "Refused", f"pod {target.name} refuses", "PATCH pods")


def test_a_label_whose_answer_was_lost_is_taken_away() -> None:
    labels = Labels()
    relabel = Relabel(labels)  # type: ignore[arg-type]
    labels.errors = {"b": (500, True)}
    with pytest.raises(ApiRefused):
        relabel.label_as_guest(A, B)
    assert labels.of["b"]
    relabel.undo()
    assert labels.of == {"a": {}, "b": {}, "c": {}}


def test_one_pod_with_errors_keeps_no_other_from_losing_its_label_and_is_tried_again() -> None:
    labels = Labels()
    relabel = Relabel(labels)  # type: ignore[arg-type]
    relabel.label_as_guest(A, B, C)
    labels.errors = {"c": (500, False), "a": (404, False)}
    with pytest.raises(ApiRefused, match="pod c refuses"):
        relabel.undo()
    assert not labels.of["b"]
    relabel.undo()
    assert not labels.of["c"]


def test_guests_are_invited_with_all_pods_of_a_namespace_and_leave_again() -> None:
    labels = Labels()
    labels.of["demo"] = {}
    relabel = RelabelNamespaces(labels)  # type: ignore[arg-type]
    relabel.invite(A, all_of=[B, C])
    assert labels.of == {"a": {GUEST: "welcome"}, "b": {}, "c": {}, "demo": {GUEST: "welcome"}}
    relabel.undo()
    assert labels.of == {"a": {}, "b": {}, "c": {}, "demo": {}}


def test_what_nobody_selects_is_a_label_and_an_annotation_of_pods_and_of_their_namespaces_and_accounts() -> (
    None
):
    labels, done = Labels(), list[dict[str, str]]()
    labels.of |= {"demo": {}, "default": {}}
    relabel = RelabelNamespaces(labels)  # type: ignore[arg-type]
    relabel.add_irrelevant_labels(A, B, after=lambda: done.append(dict(labels.of["a"])))
    assert done == [{}]
    told = {IRRELEVANT: "yes", f"annotation {IRRELEVANT}": "yes"}
    assert labels.of == {"a": told, "b": told, "c": {}, "demo": told, "default": told}
    for name in ("a", "b", "demo", "default"):
        assert [value for there, key, value in labels.given if (there, key) == (name, PASSING)] == [
            "yes",
            None,
        ]
    relabel.undo()
    assert labels.of == {"a": {}, "b": {}, "c": {}, "demo": {}, "default": {}}
