# SPDX-License-Identifier: Apache-2.0
"""The fields that a merge patch changes, their earlier values, and the patch that restores them
(RFC 7396)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.kube.client import Obj


@dataclass(frozen=True, kw_only=True)
class Content:
    """The content of a field. An absent field differs from a field that is null."""

    present: bool
    value: Any = None

    def __str__(self) -> str:
        return repr(self.value) if self.present else "(absent)"


ABSENT = Content(present=False)


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field that a change touches."""

    path: tuple[str, ...]
    before: Content
    ours: Content
    """The content after the change."""
    parents: int = 0
    """The number of leading names of the path that existed as objects before. The change created
    the objects of the other names."""

    @property
    def label(self) -> str:
        """Return the path as text: ``.spec.vxlanVNI`` or ``.metadata.annotations["a.b/c"]``."""
        return "".join(f".{name}" if name.isidentifier() else f'["{name}"]' for name in self.path)


def touched(current: Obj, patch: Mapping[str, Any]) -> tuple[Field, ...]:
    """Return exactly the fields that a merge patch sets or removes, with their present values."""
    return tuple(_touched(current, patch, (), 0))


def _touched(
    current: Any, patch: Mapping[str, Any], at: tuple[str, ...], parents: int
) -> Iterator[Field]:
    for name, value in patch.items():
        path = (*at, name)
        found = content_at(current, (name,))
        if isinstance(value, Mapping) and isinstance(found.value, Mapping):
            yield from _touched(found.value, value, path, parents + 1)
        elif isinstance(value, Mapping) and value and not found.present:
            yield from _touched({}, value, path, parents)
        else:
            ours = ABSENT if value is None else Content(present=True, value=value)
            yield Field(path=path, before=found, ours=ours, parents=parents)


def content_at(obj: Any, path: Sequence[str]) -> Content:
    """Return the content of the field at a path."""
    for name in path:
        if not isinstance(obj, Mapping) or name not in obj:
            return ABSENT
        obj = obj[name]
    return Content(present=True, value=obj)


def putting_back(fields: Sequence[Field], current: Obj) -> dict[str, Any]:
    """Return the merge patch that restores the values of these fields.

    The patch also removes parent objects that were created with the fields, if they are empty.
    """
    patch: dict[str, Any] = {}
    gone = {field.path for field in fields if not field.before.present}
    for field in fields:
        path = field.path
        if path in gone:
            while len(path) - 1 > field.parents and _all_gone(current, path[:-1], gone):
                path = path[:-1]
                gone.add(path)
            _put(patch, path, None)
        else:
            _put(patch, path, _whole(field.before.value, content_at(current, path).value))
    return patch


def _all_gone(current: Obj, parent: tuple[str, ...], gone: set[tuple[str, ...]]) -> bool:
    inside = content_at(current, parent).value
    return isinstance(inside, Mapping) and all((*parent, name) in gone for name in inside)


def _whole(wanted: Any, found: Any) -> Any:
    """Return a value for a merge patch that replaces ``found`` by exactly ``wanted``."""
    if not isinstance(wanted, Mapping) or not isinstance(found, Mapping):
        return wanted
    return {name: None for name in found if name not in wanted} | {
        name: _whole(value, found.get(name)) for name, value in wanted.items()
    }


def _put(patch: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        inner = patch.setdefault(name, {})
        if inner is None:  # the whole parent is removed
            return
        patch = inner
    patch[path[-1]] = value
