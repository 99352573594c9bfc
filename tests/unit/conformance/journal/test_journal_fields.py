# SPDX-License-Identifier: Apache-2.0
"""Exactly the fields that a merge patch changes are recorded, and restored so that nothing else
changes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from conformance.journal.fields import putting_back, touched
from conformance.journal.record import Entry, dump, load
from conformance.journal.redaction import redacted, secret_fields
from conformance.kube.guard import merged

CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"spec": {"a": 1}}, {"spec": {"a": 2}}),
    ({"spec": {"a": 1}}, {"spec": {"b": 2}}),
    ({"spec": {"a": 1}}, {"spec": {"a": None}}),
    ({}, {"spec": {"a": {"b": 1}}}),
    ({"spec": {"a": {"b": 1, "c": {"d": 2}}}}, {"spec": {"a": None}}),
    ({"spec": {"a": {"b": 1}}}, {"spec": {"a": {"c": 3}}}),
    ({"spec": {"a": [1, {"b": 2}]}}, {"spec": {"a": []}}),
    ({"spec": {"a": "text"}}, {"spec": {"a": {"b": 1}}}),
    ({"metadata": {"name": "n"}}, {"metadata": {"annotations": {"x/y": "z"}}, "spec": {"a": True}}),
    ({"spec": {"a": None}}, {"spec": {"a": 5}}),
]


@pytest.mark.parametrize(("before", "patch"), CASES)
def test_what_was_patched_is_put_back(before: dict[str, Any], patch: dict[str, Any]) -> None:
    fields = touched(before, patch)
    after = merged(before, patch)
    back = merged(after, putting_back(fields, after))
    if before != {"spec": {"a": None}}:  # which no merge patch can write, and no API server stores
        assert back == before


def test_objects_made_along_with_a_field_stay_when_somebody_else_has_put_something_in() -> None:
    fields = touched({}, {"spec": {"a": {"b": 1}}})
    now = {"spec": {"a": {"b": 1, "theirs": 2}}}
    assert merged(now, putting_back(fields, now)) == {"spec": {"a": {"theirs": 2}}}


def test_only_touched_fields_are_noted() -> None:
    (field,) = touched(
        {"spec": {"a": 1, "secret": "x", "deep": {"b": 1}}}, {"spec": {"deep": {"b": 2}}}
    )
    assert (field.label, field.before.value, field.ours.value) == (".spec.deep.b", 1, 2)


def test_an_entry_survives_its_way_through_the_config_map() -> None:
    entry = Entry(
        key="1",
        act="patch",
        why="a test",
        fields=touched({"spec": {"a": [1]}}, {"spec": {"a": None}}),
    )
    assert load(dump(entry)) == entry


def test_an_entry_of_an_earlier_release_can_be_read() -> None:
    fields = touched({"spec": {"vxlanVNI": 1}}, {"spec": {"vxlanVNI": 2}})
    entry = Entry(key="1", act="patch", why="a test", fields=fields)
    plain = json.loads(dump(entry))
    del plain["run"]
    plain["fields"][0]["answered"] = {"present": True, "value": 2}
    assert load(json.dumps(plain)) == entry


@pytest.mark.parametrize("text", ["no entry", "7", "null", "{}", '{"fields": [7]}', "[" * 100_000])
def test_what_is_no_entry_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="Error: "):
        load(text)


def test_the_mark_depends_on_all_that_restoring_goes_by_and_on_nothing_that_changes_meanwhile() -> (
    None
):
    fields = touched({"spec": {"a": {"y": 1, "x": 2}}}, {"spec": {"a": None}})
    entry = Entry(key="1", run="r", act="patch", why="a test", uid="u", fields=fields)
    for same in (
        {"state": "done"},
        {"at": "now"},
        {"worker": "gw0"},
        {"why": "b"},
        {"resource_version": "7"},
    ):
        assert replace(entry, **same).mark == entry.mark, same  # type: ignore[arg-type]
    assert load(dump(entry)).mark == entry.mark
    for other in (
        {"key": "2"},
        {"run": "s"},
        {"uid": "v"},
        {"act": "create"},
        {"fields": ()},
        {"procedure": "x"},
    ):
        assert replace(entry, **other).mark != entry.mark, other
    made = replace(entry, act="create")
    assert replace(made, uid="known now").mark == made.mark


def test_what_is_shown_of_an_entry_has_no_control_characters() -> None:
    assert "\x1b" not in Entry(key="1", act="patch", why="\x1b]0;x\x07\n::error::").label


def test_secrets_are_found_by_name_and_hidden() -> None:
    held = {
        "env": [{"name": "DB_PASSWORD", "value": "x"}, {"name": "VXLAN_VNI", "value": "1"}],
        "bearerToken": "y",
    }
    assert set(secret_fields(held)) == {".env[0].DB_PASSWORD", ".bearerToken"}
    assert "'x'" not in str(redacted(held))
    assert "'y'" not in str(redacted(held))
    reference = {
        "secretName": "s",
        "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}},
        "tokenFile": "/f",
    }
    assert list(secret_fields(reference)) == []
