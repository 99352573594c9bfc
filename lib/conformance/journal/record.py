"""One change as the journal keeps it: enough to put it back by a process that knows nothing else of the run."""

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from conformance.journal.fields import Field
from conformance.model.change import ObjectRef
from conformance.model.codec import from_plain, to_plain

Act = Literal["patch", "create", "delete-owned-pod", "procedure"]
EntryState = Literal["intended", "done", "closed"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One journalled change."""

    key: str
    """Sorts by time; unique in the run."""
    act: Act
    why: str
    state: EntryState = "intended"
    """``intended``: written before the change, which may or may not have been made; ``closed``: nothing is to do."""
    target: ObjectRef | None = None
    uid: str = ""
    resource_version: str = ""
    """As the object was before the change; for reports."""
    fields: tuple[Field, ...] = ()
    """What a patch touches."""
    procedure: str = ""
    """Name of the healer that undoes it."""
    arguments: dict[str, Any] = field(default_factory=dict)
    at: str = ""
    """When it was written, UTC."""
    worker: str = ""

    @property
    def open(self) -> bool:
        """Whether something may be left to restore."""
        return self.state != "closed"

    @property
    def label(self) -> str:
        """``patch Node node-1 (v1) .spec.unschedulable: drains it``."""
        names = ", ".join(field.label for field in self.fields)
        what = f"procedure {self.procedure} {json.dumps(self.arguments)}" if self.act == "procedure" else self.act
        target = f" {self.target.label}" if self.target else ""
        return f"{what}{target}{f' {names}' if names else ''}: {self.why}"


def dump(entry: Entry) -> str:
    """As it stands in the ConfigMap."""
    return json.dumps(to_plain(entry), separators=(",", ":"))


def load(text: str) -> Entry:
    """Raises ValueError for what is no entry."""
    return from_plain(Entry, json.loads(text))
