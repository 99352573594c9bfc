# SPDX-License-Identifier: Apache-2.0
"""Classes of events, derived from the API; the table is ``story-events.yaml``.

A unit is the smallest possible event of a kind: an object is created, deleted, or created again, a
field is edited, or a pod gets a phase, a condition or a state of its containers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from conformance.policy.oracle import fields
from conformance.policy.placeholders import Obj
from conformance.stories.model.story import Event

DIRECTIONS = ("ingress", "egress")


@dataclass(frozen=True)
class EventClass:
    """Events that a data plane cannot tell apart."""

    name: str
    units: tuple[str, ...]
    """Patterns of units."""
    word: str
    """The word for it in stories."""
    events: tuple[str, ...]
    """The events of pods; empty: the class is about other objects."""
    state: str
    """Its effect on the decisions of policies."""
    done: str
    undone: str
    known: str
    """The sign that it took effect."""
    seconds: float
    """The approximate seconds of an event on a lab with two quiet cores, including a test of every
    pair after it."""


@dataclass(frozen=True)
class Table:
    """The classes of events, and the units that are left out."""

    classes: tuple[EventClass, ...]
    left_out: Mapping[str, str]
    """Map each pattern of units to the reason why they are left out."""

    def class_of(self, unit: str) -> EventClass | None:
        """Return the class of a unit; None: it is left out, or unknown."""
        found = (one for one in self.classes if any(fnmatchcase(unit, each) for each in one.units))
        return next(found, None)

    def reason(self, unit: str) -> str:
        """Return the reason why a unit is left out; empty: it is not left out."""
        return next((why for each, why in self.left_out.items() if fnmatchcase(unit, each)), "")

    def classes_of(self, event: Event, before: Sequence[Obj], ever: set[str]) -> set[str]:
        """Return the names of the classes of an event. ``before``: the objects of its world so far;
        ``ever``: the labels of all objects that have existed."""
        if event.pods:
            return {one.name for one in self.classes if event.pods in one.events}
        classes = (self.class_of(unit) for unit in _units(event, before, ever))
        return {one.name for one in classes if one}


def read(given: Any) -> Table:
    """Return the table of the parsed YAML."""
    classes = [
        EventClass(**{**one, "units": tuple(one["units"]), "events": tuple(one.get("events", ()))})
        for one in given["classes"]
    ]
    left_out = {each: one["reason"] for one in given["left_out"] for each in one["units"]}
    return Table(tuple(classes), left_out)


def _units(event: Event, before: Sequence[Obj], ever: set[str]) -> Iterator[str]:
    """Yield the units of an event of objects."""
    there = {fields.label(obj): obj for obj in before}
    if "gone" in event.told:
        yield f"{str(event.told['gone']).partition(' ')[0]}: deleted"
    for name, labels in (event.told.get("labels") or {}).items():
        _, dot, of = name.partition(".")
        kind = {"teller": "ServiceAccount", "": "Namespace"}.get(of if dot else "", "Pod")
        yield f"{kind}: labels" if labels is not None else f"{kind}: deleted"
    put = event.told.get("put") or []
    for obj in put if isinstance(put, list) else [put]:
        label = fields.label(obj)
        if label not in there:
            yield f"{obj['kind']}: {'made again' if label in ever else 'made'}"
        else:
            yield from (f"{obj['kind']}: {path}" for path in _edited(there[label], obj))


def _edited(old: Obj, new: Obj) -> Iterator[str]:
    """Yield the paths of changed fields."""
    if old["metadata"].get("labels") != new["metadata"].get("labels"):
        yield "labels"
    before, after = (dict(_leaves(obj.get("spec") or {})) for obj in (old, new))
    yield from sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each field, with its values as text; rules of both directions have the path
    ``rules``."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            name = "rules" if not path and key in DIRECTIONS else key
            yield from _leaves(inner, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        merged: dict[str, list[str]] = {}
        for one in value:
            for inner, text in _leaves(one, path):
                merged.setdefault(inner, []).append(text)
        yield from ((inner, str(texts)) for inner, texts in merged.items())
    else:
        yield path, str(value)
