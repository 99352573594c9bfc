"""Checks of metadata that hold for every kind: labels, annotations, finalizers, owner references."""

import re
from collections.abc import Iterator

from hybridlab.api.contract import Obj
from hybridlab.api.errors import Cause, invalid_value
from hybridlab.api.kinds.strategy import subdomain_problem

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
    """Say what is wrong with the key of a label or annotation, or None."""
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
    """Say what is wrong with the value of a label, or None."""
    if len(value) > 63:
        return "must be no more than 63 characters"
    return None if not value or _NAME.match(value) else VALUE_RULE


def label_problems(labels: dict[str, str], at: str) -> Iterator[Cause]:
    """Return what is wrong with a map of labels."""
    for key, value in labels.items():
        if problem := key_problem(key):
            yield invalid_value(at, key, problem)
        if isinstance(value, str) and (problem := value_problem(value)):
            yield invalid_value(at, value, problem)


def metadata_problems(meta: Obj, old: Obj | None) -> Iterator[Cause]:
    """Return what is wrong with an object's metadata; what did not change is not looked at again."""
    labels = meta.get("labels")
    if labels and (old is None or old.get("labels") != labels):
        yield from label_problems(labels, "metadata.labels")
    annotations = meta.get("annotations")
    if annotations and (old is None or old.get("annotations") != annotations):
        for key in annotations:
            if problem := key_problem(key.lower()):
                yield invalid_value("metadata.annotations", key, problem)
        if sum(len(key) + len(value) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
            yield Cause(
                "FieldValueTooLong",
                "metadata.annotations",
                f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes",
            )
    yield from _owner_problems(meta.get("ownerReferences") or [])
    for index, finalizer in enumerate(meta.get("finalizers") or ()):
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid_value(f"metadata.finalizers[{index}]", finalizer, detail)
    if old is not None and "deletionTimestamp" in old:
        added = set(meta.get("finalizers") or ()) - set(old.get("finalizers") or ())
        if added:
            found = "[]string{" + ", ".join(f'"{name}"' for name in sorted(added)) + "}"
            detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {found}"
            yield Cause("FieldValueForbidden", "metadata.finalizers", f"Forbidden: {detail}")


_OWNER_FIELDS = (
    ("apiVersion", "version must not be empty"),
    ("kind", "must not be empty"),
    ("name", "must not be empty"),
    ("uid", "must not be empty"),
)


def _owner_problems(owners: list[Obj]) -> Iterator[Cause]:
    """Return what is wrong with an object's owner references."""
    for owner in owners:
        for key, detail in _OWNER_FIELDS:
            if not owner.get(key):
                yield invalid_value(f"metadata.ownerReferences.{key}", "", detail)
    controllers = [
        f"{owner.get('kind')}/{owner.get('name')}" for owner in owners if owner.get("controller")
    ]
    if len(controllers) > 1:
        found = f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        detail = f"Only one reference can have Controller set to true. {found}"
        yield invalid_value("metadata.ownerReferences", owners, detail)
