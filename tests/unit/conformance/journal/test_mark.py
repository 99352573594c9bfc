# SPDX-License-Identifier: Apache-2.0
"""A journal entry is believed only if its object carries the mark and its change is in force."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from conformance.journal.fields import ABSENT, Content, Field
from conformance.journal.mark import believed, with_mark
from conformance.journal.record import Entry
from conformance.kube.client import Kube
from conformance.model.change import ObjectRef

PATCH = Entry(
    key="1",
    act="patch",
    why="a test",
    run="ab12",
    uid="u-1",
    target=ObjectRef(api_version="projectcalico.org/v3", kind="FelixConfiguration", name="default"),
    fields=(
        Field(path=("spec", "vxlanVNI"), before=ABSENT, ours=Content(present=True, value=5000)),
        Field(path=("spec", "vxlanPort"), before=ABSENT, ours=Content(present=True, value=4790)),
    ),
)
CREATED = replace(
    PATCH,
    act="create",
    uid="",
    fields=(),
    target=ObjectRef(
        api_version="projectcalico.org/v3", kind="IPPool", name="calico-demo-ab12-pool"
    ),
)
POD = ObjectRef(api_version="v1", kind="Pod", name="web", namespace="shop")
DELETED = replace(PATCH, act="delete-owned-pod", fields=(), target=POD)


def an_api(found: dict[str, Any] | None, *served: str) -> Kube:
    """Return an API server that has one object, or none, and serves these API versions."""
    return cast(
        Kube,
        SimpleNamespace(
            find=lambda *_: found,
            discovery=SimpleNamespace(serves=lambda api, kind: api in served),
        ),
    )


def marked(entry: Entry, uid: str = "u-1", **spec: Any) -> dict[str, Any]:
    """Return an object that carries the mark of an entry."""
    found: dict[str, Any] = with_mark({"metadata": {"uid": uid}, "spec": spec}, entry)
    return found


SERVED = ("projectcalico.org/v3", "v1")
STORED = ("crd.projectcalico.org/v1",)


@pytest.mark.parametrize(
    ("entry", "found", "served", "why"),
    [
        pytest.param(PATCH, marked(PATCH, vxlanVNI=5000), SERVED, "", id="one field holds"),
        pytest.param(PATCH, marked(PATCH, vxlanVNI=1), SERVED, "no longer holds", id="none holds"),
        pytest.param(PATCH, None, SERVED, "is gone", id="gone"),
        pytest.param(
            PATCH, marked(PATCH, "u-2", vxlanVNI=5000), SERVED, "another uid", id="replaced"
        ),
        pytest.param(PATCH, marked(PATCH, "u-2", vxlanVNI=5000), STORED, "", id="as it is stored"),
        pytest.param(
            replace(PATCH, run="cd34"),
            marked(PATCH, vxlanVNI=5000),
            SERVED,
            "altered",
            id="altered",
        ),
        pytest.param(
            replace(PATCH, uid=""), marked(PATCH), SERVED, "makes no such change", id="not ours"
        ),
        pytest.param(CREATED, marked(CREATED), SERVED, "", id="a created object has no fields"),
        pytest.param(DELETED, marked(DELETED), SERVED, "nothing that lasts", id="does not last"),
    ],
)
def test_an_entry_is_believed_only_with_its_own_mark_and_a_value_of_its_run(
    entry: Entry, found: dict[str, Any] | None, served: tuple[str, ...], why: str
) -> None:
    answer = believed(an_api(found, *served), entry)
    assert answer == "" if not why else why in answer
