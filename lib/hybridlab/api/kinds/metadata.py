# SPDX-License-Identifier: Apache-2.0
"""Checks of metadata that apply to every kind: labels, annotations, finalizers, owner
references."""

import re
from collections.abc import Iterator

from hybridlab.api.contract import Obj
from hybridlab.api.errors import Cause, forbidden_field, invalid_value
from hybridlab.api.kinds.strategy import subdomain_problem
from hybridlab.api.kinds.values import invalid_if, malformed

_NAME = re.compile(r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_ANNOTATIONS_LIMIT = 256 * 1024
NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
QUALIFIED_RULE = (
    "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def key_problem(key: str) -> str | None:
    """Return the problem of a label's or annotation's key; None if it is valid."""
    if key.count("/") > 1:
        return QUALIFIED_RULE
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or subdomain_problem(prefix)):
        return "prefix part " + (subdomain_problem(prefix) or "must be non-empty")
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 characters"
    return None if _NAME.match(name) else NAME_RULE


def value_problem(value: str) -> str | None:
    """Return the problem of a label's value; None if it is valid."""
    if len(value) > 63:
        return "must be no more than 63 characters"
    return None if not value or _NAME.match(value) else VALUE_RULE


def label_problems(labels: dict[str, str], at: str) -> Iterator[Cause]:
    """Return the problems of a map of labels."""
    for key, value in labels.items():
        yield from malformed(at, key, key_problem(key))
        if isinstance(value, str):
            yield from malformed(at, value, value_problem(value))


def metadata_problems(meta: Obj, old: Obj | None) -> Iterator[Cause]:
    """Return the problems of an object's metadata; unchanged parts are not checked again."""
    old = old or {}
    labels = meta.get("labels") or {}
    if old.get("labels") != labels:
        yield from label_problems(labels, "metadata.labels")
    annotations = meta.get("annotations") or {}
    if old.get("annotations") != annotations:
        yield from _annotation_problems(annotations)
    yield from _owner_problems(meta.get("ownerReferences") or [])
    yield from _finalizer_problems(meta.get("finalizers") or [], old)


def _annotation_problems(annotations: dict[str, str]) -> Iterator[Cause]:
    for key in annotations:
        yield from malformed("metadata.annotations", key, key_problem(key.lower()))
    if sum(len(key) + len(value) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        yield Cause(
            "FieldValueTooLong",
            "metadata.annotations",
            f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes",
        )


def _finalizer_problems(finalizers: list[str], old: Obj) -> Iterator[Cause]:
    """Yield the faults of finalizers; an object that is being deleted gets no new finalizers."""
    for index, finalizer in enumerate(finalizers):
        yield from invalid_if(
            "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS,
            f"metadata.finalizers[{index}]",
            finalizer,
            "name is neither a standard finalizer name nor is it fully qualified",
        )
    added = set(finalizers) - set(old.get("finalizers") or ())
    if added and "deletionTimestamp" in old:
        found = "[]string{" + ", ".join(f'"{name}"' for name in sorted(added)) + "}"
        detail = "no new finalizers can be added if the object is being deleted"
        yield forbidden_field("metadata.finalizers", f"{detail}, found new finalizers {found}")


_OWNER_FIELDS = (
    ("apiVersion", "version must not be empty"),
    ("kind", "must not be empty"),
    ("name", "must not be empty"),
    ("uid", "must not be empty"),
)


def _owner_problems(owners: list[Obj]) -> Iterator[Cause]:
    """Return the problems of an object's owner references."""
    for owner in owners:
        for key, detail in _OWNER_FIELDS:
            yield from invalid_if(not owner.get(key), f"metadata.ownerReferences.{key}", "", detail)
    controllers = [
        f"{owner.get('kind')}/{owner.get('name')}" for owner in owners if owner.get("controller")
    ]
    if len(controllers) > 1:
        found = f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        detail = f"Only one reference can have Controller set to true. {found}"
        yield invalid_value("metadata.ownerReferences", owners, detail)
