# SPDX-License-Identifier: Apache-2.0
"""A change in the form of the journal. It has everything that a process needs to restore the change
without other knowledge of the run.
"""

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from conformance.journal.fields import Field
from conformance.kube.ownership import CHANGE_ANNOTATION
from conformance.model.change import ObjectRef
from conformance.model.codec import from_plain, to_plain

Act = Literal["patch", "create", "delete-owned-pod", "procedure"]
EntryState = Literal["intended", "done", "closed"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A journalled change."""

    key: str
    """The key of the entry in the journal: it sorts by time and is unique in the run."""
    act: Act
    why: str
    run: str = ""
    """The run that made the change. Empty if an earlier release of the suite made it, which left no
    mark."""
    state: EntryState = "intended"
    """``intended``: written before the change, which may or may not have been made. ``closed``:
    nothing needs to be restored."""
    target: ObjectRef | None = None
    """The changed object; for a procedure its node."""
    uid: str = ""
    """The uid of the target. The uid of a created object is known only afterwards, or never."""
    resource_version: str = ""
    """The version of the object before the change; for reports."""
    fields: tuple[Field, ...] = ()
    """The fields that a patch changes."""
    procedure: str = ""
    """The name of the healer that undoes the procedure."""
    arguments: dict[str, Any] = field(default_factory=dict)
    at: str = ""
    """The time when the entry was written, in UTC."""
    worker: str = ""

    @property
    def open(self) -> bool:
        """Return whether the entry may still need restoring."""
        return self.state != "closed"

    @property
    def mark_name(self) -> str:
        """Return the name of the annotation by which the changed object confirms this entry."""
        return f"{CHANGE_ANNOTATION}{self.key}"

    @property
    def mark(self) -> str:
        """Return the annotation's value: the run, and a hash of all data that restoring uses."""
        uid = "" if self.act == "create" else self.uid
        acted_on = replace(
            self, why="", state="intended", uid=uid, resource_version="", at="", worker=""
        )
        return f"{self.run} {hashlib.sha256(dump(acted_on, sort_keys=True).encode()).hexdigest()}"

    @property
    def label(self) -> str:
        """Return the change in words: ``patch Node node-1 (v1) .spec.unschedulable: drains it``."""
        names = ", ".join(field.label for field in self.fields)
        what = (
            f"procedure {self.procedure} {json.dumps(self.arguments)}"
            if self.act == "procedure"
            else self.act
        )
        target = f" {self.target.label}" if self.target else ""
        text = f"{what}{target}{f' {names}' if names else ''}: {self.why}"
        return "".join(letter if letter.isprintable() else "?" for letter in text)


def dump(entry: Entry, *, sort_keys: bool = False) -> str:
    """Return the entry as text, as the ConfigMap contains it."""
    return json.dumps(to_plain(entry), separators=(",", ":"), sort_keys=sort_keys)


def load(text: str) -> Entry:
    """Read an entry. Raise ValueError if the text is no entry."""
    try:
        plain = json.loads(text)
        for touched in plain.get("fields", ()):
            touched.pop("answered", None)  # written by earlier releases
        return from_plain(Entry, plain)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
