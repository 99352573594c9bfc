# SPDX-License-Identifier: Apache-2.0
"""The marks that a run leaves on changed objects. An entry of the run's journal is applied only if
the marks confirm the entry.

The mark is an annotation of the changed object: the run, and a hash of the journal entry. It is
written in the same request as the change, and removed in the request that restores the value. A
procedure's mark is on its node before the procedure begins. A user who can write the mark may
change the object anyway.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from conformance.errors import EnvironmentBroken
from conformance.journal.fields import ABSENT, Content, Field, content_at, putting_back
from conformance.journal.record import Entry
from conformance.journal.restorable import refusal
from conformance.journal.retry import read, retry
from conformance.kube import guard
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import CHANGE_ANNOTATION, STORED_METADATA, annotations_of
from conformance.model.change import ObjectRef

_ANNOTATIONS = ("metadata", "annotations")


def with_mark(body: Any, entry: Entry) -> Any:
    """Return an object, or a merge patch, that also has the entry's mark."""
    return guard.merged(body, {"metadata": {"annotations": {entry.mark_name: entry.mark}}})


def marks_of(obj: Obj) -> Iterator[tuple[str, str]]:
    """Yield the run and the annotation's name of each mark on an object."""
    yield from (
        (str(value).partition(" ")[0], name)
        for name, value in annotations_of(obj).items()
        if name.startswith(CHANGE_ANNOTATION)
    )


def mark_fields(current: Obj, name: str) -> tuple[Field, ...]:
    """Return the fields of an object that hold this mark, with the contents that restore them; an
    empty tuple if the object has no such mark."""
    marked = content_at(current, (*_ANNOTATIONS, name))
    fields = (
        [Field(path=(*_ANNOTATIONS, name), before=ABSENT, ours=marked, parents=1)]
        if marked.present
        else []
    )
    stored = content_at(
        current, (*_ANNOTATIONS, STORED_METADATA)
    )  # the metadata in storage of an object that Calico's API server serves
    if name in annotations_of({"metadata": {"annotations": {STORED_METADATA: stored.value}}}):
        given = json.loads(stored.value)
        del given["annotations"][name]
        less = Content(present=True, value=json.dumps(given))
        fields.append(
            Field(path=(*_ANNOTATIONS, STORED_METADATA), before=less, ours=stored, parents=2)
        )
    return tuple(fields)


def unmark(changes: Changes, target: ObjectRef, name: str, *, within: float) -> bool:
    """Remove a mark from an object, at the API through which the object was changed. Return False
    if the object has no such mark."""
    current = read(changes.kube, target, within=within) or {}
    fields = mark_fields(current, name)
    if fields:
        patch = putting_back(fields, current)
        retry(
            lambda: changes.patch(target, patch, "the change that it marks is over", foreign=True),
            within=within,
            description=f"remove mark {name} from {target.label}",
        )
    return bool(fields)


def doubt(entry: Entry, current: Obj, *, as_noted: bool = True) -> str:
    """Return why an object does not confirm a journal entry; an empty string if it has the entry's
    own mark.

    ``as_noted``: the object was read at the API that the entry names, and not from Calico's
    storage, where the object has another uid.
    """
    target = entry.target
    mark = annotations_of(current).get(entry.mark_name)
    assert target is not None  # the entry fits the tables
    if as_noted and entry.uid and current["metadata"].get("uid") != entry.uid:
        return f"{target.label} was replaced by an object with another uid"
    if mark is None:
        return f"{target.label} does not carry the mark {entry.mark_name}: no run of this suite made the change"
    return (
        ""
        if mark == entry.mark
        else f"{target.label} is marked for another change: the journal entry was altered"
    )


def believed(kube: Kube, entry: Entry, *, within: float = 0.0) -> str:
    """Return the reason why a journal entry must not be applied; an empty string if its change is
    in force as recorded.

    The entry must fit the tables. The object must have the recorded uid and the entry's mark, and
    hold the run's value. Raise ApiRefused, EnvironmentBroken.
    """
    target = entry.target
    why = refusal(entry)
    if why or target is None or entry.act == "delete-owned-pod":
        return why or "the entry changes nothing that lasts"
    reached = within_reach(kube, target, within=within)
    current = read(kube, reached, within=within)
    if current is None:
        return f"{target.label} is gone"
    if why := doubt(entry, current, as_noted=reached == target):
        return why
    if entry.act == "patch" and not any(
        content_at(current, field.path) == field.ours for field in entry.fields
    ):
        return f"{target.label} no longer holds any value that the run wrote"
    return ""


SERVED = "projectcalico.org/v3"
STORED = "crd.projectcalico.org/v1"
KINDS = ("FelixConfiguration",)


def within_reach(kube: Kube, target: ObjectRef, *, within: float) -> ObjectRef:
    """Return the place at which to read and restore an object: the recorded place, or Calico's
    storage if its API server is absent.

    Raise EnvironmentBroken if the object cannot be reached at the recorded place, and is not stored
    where this suite could write. Raise ApiRefused.
    """
    why: object = f"{target.api_version} is not served"
    if kube.discovery.serves(target.api_version, target.kind):
        try:
            read(kube, target, within=within)
            return target
        except EnvironmentBroken as error:
            why = error
    is_calicos = target.api_version == SERVED and target.kind in KINDS
    if not is_calicos or not kube.discovery.serves(STORED, target.kind):
        raise EnvironmentBroken(f"{target.label} cannot be reached: {why}")
    return replace(target, api_version=STORED)
