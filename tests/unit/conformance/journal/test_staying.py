# SPDX-License-Identifier: Apache-2.0
"""What stays of a change that could not be undone is told by its journal entry; a cordon names its
run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.journal import Entry
from conformance.journal.cordon import LIFTED, cordoned_by, marked
from conformance.journal.fields import ABSENT, Content, Field
from conformance.journal.staying import SHOWN, described, stays, text_of
from conformance.kube.ownership import CORDON_ANNOTATION
from conformance.model.change import ObjectRef

FELIX = ObjectRef(api_version="projectcalico.org/v3", kind="FelixConfiguration", name="default")


def a_field(name: str, before: Content, ours: Content) -> Field:
    return Field(path=("spec", name), before=before, ours=ours)


VNI = a_field("vxlanVNI", Content(present=True, value=4096), Content(present=True, value=4097))
PORT = a_field("vxlanPort", ABSENT, Content(present=True, value=4790))
ENTRY = Entry(key="k", act="patch", why="a test", state="done", target=FELIX, fields=(VNI, PORT))
NAME = "FelixConfiguration default (projectcalico.org/v3)"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, f"{NAME}: .spec.vxlanVNI 4096 -> 4097, .spec.vxlanPort absent -> 4790 stays"),
        (
            {"state": "intended", "fields": (VNI,)},
            f"{NAME}: .spec.vxlanVNI 4096 -> 4097 may stay (it is not known whether it was made)",
        ),
        ({"act": "create"}, f"{NAME}, which this suite made, stays"),
        ({"act": "delete-owned-pod"}, f"{NAME} was deleted: a test"),
        (
            {"act": "procedure", "procedure": "vni", "arguments": {"vni": 4097}},
            'vni {"vni": 4097} is not undone: a test',
        ),
    ],
)
def test_what_stays_is_told_by_the_kind_of_the_change(change: dict[str, Any], text: str) -> None:
    assert stays(replace(ENTRY, **change)) == text


def test_an_entry_is_described_with_the_values_of_its_fields() -> None:
    assert described(ENTRY) == (
        f"{ENTRY.label} (.spec.vxlanVNI 4096 -> 4097, .spec.vxlanPort absent -> 4790)"
    )
    bare = replace(ENTRY, fields=())
    assert described(bare) == bare.label


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a", ABSENT, "absent"),
        ("a", Content(present=True), "None"),
        ("a", Content(present=True, value="v"), "'v'"),
        ("password", Content(present=True, value="v"), "'(redacted)'"),
        ("a", Content(present=True, value="x" * (SHOWN - 2)), f"'{'x' * (SHOWN - 2)}'"),
        ("a", Content(present=True, value="x" * SHOWN), f"'{'x' * (SHOWN - 1)}..."),
    ],
)
def test_a_value_is_short_and_without_secrets(name: str, content: Content, text: str) -> None:
    assert text_of(a_field(name, content, content), content) == text


NODE = ObjectRef(api_version="v1", kind="Node", name="w1")
CORDONS: dict[str, Any] = {"spec": {"unschedulable": True}}
MARK = {"metadata": {"annotations": {CORDON_ANNOTATION: "r1"}}}


@pytest.mark.parametrize(
    ("current", "target", "patch", "written"),
    [
        pytest.param({}, NODE, CORDONS, {**CORDONS, **MARK}, id="a cordon is marked"),
        pytest.param(CORDONS, NODE, CORDONS, CORDONS, id="another's cordon is not"),
        pytest.param({}, FELIX, CORDONS, CORDONS, id="no node"),
        pytest.param({}, NODE, {"spec": None}, {"spec": None}, id="no cordon"),
        pytest.param(CORDONS, NODE, dict(LIFTED), dict(LIFTED), id="its end"),
    ],
)
def test_a_run_marks_the_cordons_that_it_makes_and_no_others(
    current: Any, target: ObjectRef, patch: Any, written: Any
) -> None:
    assert marked(current, target, patch, "r1") == written


@pytest.mark.parametrize(
    ("node", "run"),
    [(None, ""), ({}, ""), ({"metadata": {"annotations": None}}, ""), (MARK, "r1")],
)
def test_a_cordon_is_its_run_s_by_the_mark_alone(node: Any, run: str) -> None:
    assert cordoned_by(node) == run
