"""Exactly the fields that a merge patch touches are noted, and put back so that nothing else changes."""

from __future__ import annotations

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
    (field,) = touched({"spec": {"a": 1, "secret": "x", "deep": {"b": 1}}}, {"spec": {"deep": {"b": 2}}})
    assert (field.label, field.before.value, field.ours.value) == (".spec.deep.b", 1, 2)


def test_an_entry_survives_its_way_through_the_config_map() -> None:
    entry = Entry(key="1", act="patch", why="a test", fields=touched({"spec": {"a": [1]}}, {"spec": {"a": None}}))
    assert load(dump(entry)) == entry


def test_secrets_are_found_by_name_and_hidden() -> None:
    held = {"env": [{"name": "DB_PASSWORD", "value": "x"}, {"name": "VXLAN_VNI", "value": "1"}], "bearerToken": "y"}
    assert set(secret_fields(held)) == {".env[0].DB_PASSWORD", ".bearerToken"}
    assert "'x'" not in str(redacted(held))
    assert "'y'" not in str(redacted(held))
    reference = {"secretName": "s", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}, "tokenFile": "/f"}
    assert list(secret_fields(reference)) == []
