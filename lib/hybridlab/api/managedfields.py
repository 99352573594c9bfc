# SPDX-License-Identifier: Apache-2.0
"""The owners of fields: managedFields, and server-side apply, which uses them.

Ownership has the format of the objects (``fieldsV1``: ``f:name`` for a field, ``k:{...}`` for an
item of a keyed list, ``v:...`` for an item of a set, ``.`` for the item itself). Inside this module
a set of fields is a set of paths; a path is a tuple of these steps. The shapes define how each
field is merged; custom resources without a schema are merged by field, and their lists are replaced
as a whole, as on the real server.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import orjson

from hybridlab.api.contract import ApiError, Obj
from hybridlab.api.lifecycle import timestamp
from hybridlab.api.schemas.shapes import ListRule, Shape, shapes

Path = tuple[str, ...]
_UNOWNED = frozenset({("f:apiVersion",), ("f:kind",), ("f:metadata",)})
_SYSTEM_METADATA = frozenset(
    f"f:{name}"
    for name in (
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "generation",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
    )
)


@dataclass(frozen=True)
class Conflicts:
    """Fields that an apply wants to change and that other managers own."""

    by_manager: Mapping[str, list[str]]

    def error(self, kind: str, name: str) -> ApiError:
        """Return the 409 that names the owners of the fields."""
        lines = [
            f"conflict with {who}: {field}"
            for who, fields in self.by_manager.items()
            for field in fields
        ]
        if len(lines) == 1:
            message = f"Apply failed with 1 conflict: {lines[0]}"
        else:
            parts = [
                f"conflicts with {who}:\n" + "\n".join(f"- {field}" for field in fields)
                for who, fields in sorted(self.by_manager.items())
            ]
            message = f"Apply failed with {len(lines)} conflicts: " + "\n".join(parts)
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": field}
            for who, fields in self.by_manager.items()
            for field in fields
        ]
        return ApiError(409, "Conflict", message, {"causes": causes})


def _item_step(item: Any, rule: ListRule) -> str:
    if rule.is_set:
        return "v:" + orjson.dumps(item).decode()
    keys = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in rule.keys}
    present = {key: value for key, value in keys.items() if value is not None}
    return "k:" + orjson.dumps(present, option=orjson.OPT_SORT_KEYS).decode()


_KEY_DEFAULTS: Mapping[str, Any] = {"protocol": "TCP"}
"""The defaults of the list keys that may be left out."""


def _inner(
    shape: Shape | None, key: str, *, top: bool = False
) -> tuple[Shape | None, ListRule | None, bool]:
    """Return the shape of a field's value (or of its items), its list rule, and whether it is
    atomic.

    ``top``: the field is at the top level of an object, which has metadata even if the kind has no
    schema.
    """
    if shape is None:
        return shapes().named("V1ObjectMeta") if top and key == "metadata" else None, None, False
    code = shape.codes.get(key, "o")
    name = code[code.index(".") + 1 :] if "." in code else ""
    inner = shapes().get(name) if name else None
    atomic = code == "o" or (inner is not None and inner.atomic and code[0] == ".")
    return inner, shape.lists.get(key), atomic


def fields_of(value: Obj, shape: Shape | None) -> dict[Path, Any]:
    """Return every field that an object sets, with its value; items of keyed lists are included as
    well."""
    found: dict[Path, Any] = {}
    _walk(value, shape, (), found)
    return {
        path: item for path, item in found.items() if path not in _UNOWNED and not _is_system(path)
    }


def _is_system(path: Path) -> bool:
    return len(path) > 1 and path[0] == "f:metadata" and path[1] in _SYSTEM_METADATA


def _walk(value: Obj, shape: Shape | None, prefix: Path, found: dict[Path, Any]) -> None:
    for key, item in value.items():
        path = (*prefix, f"f:{key}")
        inner, rule, atomic = _inner(shape, key, top=not prefix)
        if isinstance(item, dict) and item and not atomic:
            _walk(item, inner, path, found)
        elif isinstance(item, list) and rule is not None and (rule.keys or rule.is_set):
            if not item:
                found[path] = item
            for entry in item:
                at = (*path, _item_step(entry, rule))
                found[at] = entry
                if isinstance(entry, dict):
                    _walk(entry, inner, at, found)
        else:
            found[path] = item


def duplicate_keys(value: Obj, shape: Shape | None, at: str = "") -> Iterator[str]:
    """Yield a message for each key that two items of a keyed list share."""
    for key, item in value.items():
        inner, rule, _ = _inner(shape, key)
        here = f"{at}.{key}"
        if isinstance(item, dict):
            yield from duplicate_keys(item, inner, here)
        elif isinstance(item, list) and rule is not None and rule.keys:
            steps = [_item_step(entry, rule) for entry in item]
            yield from (
                f"{here}: duplicate entries for key {_shown((step,))}"
                for step in sorted({step for step in steps if steps.count(step) > 1})
            )
            for entry in item:
                if isinstance(entry, dict):
                    yield from duplicate_keys(entry, inner, here)


def encode(paths: Iterable[Path]) -> Obj:
    """Write a set of paths as ``fieldsV1``."""
    root: Obj = {}
    for path in sorted(paths):
        node = root
        for step in path:
            node = node.setdefault(step, {})
        if path[-1][0] in "kv":
            node["."] = {}
    for node in _nodes(root):
        if list(node) == ["."]:
            del node["."]
    return root


def _nodes(node: Obj) -> Iterable[Obj]:
    for child in node.values():
        yield child
        yield from _nodes(child)


def decode(fields: Obj) -> set[Path]:
    """Read ``fieldsV1`` into a set of paths."""
    found: set[Path] = set()

    def visit(node: Obj, path: Path) -> None:
        children = [step for step in node if step != "."]
        if path and ("." in node or not children):
            found.add(path)
        for step in children:
            visit(node[step], (*path, step))

    visit(fields, ())
    return found


def _shown(path: Path) -> str:
    text = ""
    for step in path:
        if step.startswith("f:"):
            text += "." + step[2:]
        elif step.startswith("k:"):
            keys = orjson.loads(step[2:])
            text += (
                "["
                + ",".join(f"{key}={orjson.dumps(value).decode()}" for key, value in keys.items())
                + "]"
            )
        else:
            text += f"[={step[2:]}]"
    return text


def _entry(manager: str, operation: str, obj: Obj, paths: Iterable[Path], subresource: str) -> Obj:
    entry: Obj = {
        "manager": manager,
        "operation": operation,
        "apiVersion": obj["apiVersion"],
        "time": timestamp(),
        "fieldsType": "FieldsV1",
        "fieldsV1": encode(paths),
    }
    if subresource:
        entry["subresource"] = subresource
    return entry


def _identity(entry: Obj) -> tuple[str, str, str]:
    return entry.get("manager", ""), entry.get("operation", ""), entry.get("subresource", "")


def same_owners(first: list[Obj] | None, other: list[Obj] | None) -> bool:
    """Compare managedFields apart from their times."""
    if first is other:
        return True
    strip = [
        [{key: value for key, value in item.items() if key != "time"} for item in entries or ()]
        for entries in (first, other)
    ]
    return strip[0] == strip[1]


def track_update(
    shape: Shape | None, obj: Obj, old: Obj | None, manager: str, subresource: str
) -> None:
    """Record in ``obj`` that ``manager`` now owns the fields that differ from ``old``, and other
    managers no longer do.
    """
    now = fields_of(obj, shape)
    before = fields_of(old, shape) if old else {}
    changed = (now.keys() - before.keys()) | _differing(before, now)
    gone = before.keys() - now.keys()
    if not changed and not gone:
        return
    who = (manager or "unknown", "Update", subresource)
    entries: list[Obj] = []
    mine = set(changed)
    for entry, owned in _owners(old or {"metadata": {}}):
        if _identity(entry) == who:
            mine |= owned - gone
        else:
            entries += _without(entry, owned, gone | (changed & before.keys()))
    if mine:
        entries.append(_entry(who[0], "Update", obj, mine, subresource))
    obj["metadata"]["managedFields"] = entries


def _owners(obj: Obj) -> list[tuple[Obj, set[Path]]]:
    """Return the entries of an object's managedFields, each with the fields that it owns."""
    entries = obj["metadata"].get("managedFields") or ()
    return [(entry, decode(entry.get("fieldsV1") or {})) for entry in entries]


def _differing(before: Mapping[Path, Any], now: Mapping[Path, Any]) -> set[Path]:
    """Return the fields (not items of lists) with different values in ``before`` and ``now``."""
    return {
        path
        for path, value in now.items()
        if path[-1][0] == "f" and path in before and before[path] != value
    }


def _without(entry: Obj, owned: set[Path], lost: Set[Path]) -> list[Obj]:
    """Return ``entry`` without the ``lost`` fields, as a list; return an empty list if the entry
    owned no other fields."""
    kept = owned - lost
    if kept == owned:
        return [entry]
    return [{**entry, "fieldsV1": encode(kept)}] if kept else []


def _conflicts(
    others: Iterable[tuple[Obj, set[Path]]], differing: set[Path]
) -> dict[str, list[str]]:
    """Map each manager in ``others`` to the ``differing`` fields that the manager owns."""
    conflicts: dict[str, list[str]] = {}
    for entry, owned in others:
        fields = sorted(_shown(path) for path in owned & differing)
        if fields:
            title = f'"{entry["manager"]}"'
            if entry.get("subresource"):
                title += f' with subresource "{entry["subresource"]}"'
            if entry["operation"] == "Update":
                title += f" using {entry['apiVersion']}"
            conflicts.setdefault(title, []).extend(fields)
    return conflicts


def apply(
    shape: Shape | None, live: Obj, wanted: Obj, manager: str, *, force: bool, subresource: str
) -> tuple[Obj, list[Obj]] | Conflicts:
    """Merge the fields that ``manager`` applies into ``live``; return the result and its
    managedFields, or the conflicts.
    """
    asked = fields_of(wanted, shape)
    present = fields_of(live, shape)
    who = (manager, "Apply", subresource)
    owners = _owners(live)
    mine = [owner for owner in owners if _identity(owner[0]) == who]
    others = [owner for owner in owners if _identity(owner[0]) != who]
    differing = _differing(present, asked)
    conflicts = _conflicts(others, differing)
    if conflicts and not force:
        return Conflicts(conflicts)
    merged = _merge(live, wanted, shape)
    still_owned = asked.keys() | set().union(*(owned for _, owned in others))
    mine_before = mine[-1][1] if mine else set()
    for path in sorted((mine_before - still_owned) & present.keys(), key=len):
        if not _covers(path, still_owned):
            merged = _removed(merged, path, shape, top=True)
    kept = [item for entry, owned in others for item in _without(entry, owned, differing)]
    if mine and mine[0][1] == asked.keys():
        return merged, [*kept, mine[0][0]]
    return merged, [*kept, _entry(manager, "Apply", wanted, asked.keys(), subresource)]


def _covers(path: Path, owned: Iterable[Path]) -> bool:
    """Return whether a field inside ``path`` is among the ``owned`` fields."""
    size = len(path)
    return any(len(item) > size and item[:size] == path for item in owned)


def _merge(live: Any, wanted: Any, shape: Shape | None, *, top: bool = True) -> Any:
    result = dict(live)
    for key, value in wanted.items():
        inner, rule, atomic = _inner(shape, key, top=top)
        old = live.get(key)
        if isinstance(value, dict) and isinstance(old, dict) and not atomic and value:
            result[key] = _merge(old, value, inner, top=False)
        elif (
            isinstance(value, list)
            and isinstance(old, list)
            and rule is not None
            and (rule.keys or rule.is_set)
        ):
            result[key] = _merge_items(old, value, rule, inner)
        else:
            result[key] = value
    return result


def _merge_items(old: list[Any], new: list[Any], rule: ListRule, shape: Shape | None) -> list[Any]:
    places = {_item_step(item, rule): index for index, item in enumerate(old)}
    result = list(old)
    for item in new:
        place = places.get(_item_step(item, rule))
        if place is None:
            result.append(item)
        elif isinstance(item, dict):
            result[place] = _merge(result[place], item, shape, top=False)
    return result


def _removed(
    node: Any,
    path: Path,
    shape: Shape | None,
    rule: ListRule | None = None,
    *,
    top: bool = False,
) -> Any:
    """Return a copy of ``node`` without the field or item at ``path``; other parts are shared.

    ``rule`` is the rule of ``node`` if it is a list. A list that loses its last item is removed
    as well.
    """
    step = path[0]
    rest = path[1:]
    if step.startswith("f:"):
        key = step[2:]
        if not isinstance(node, dict) or key not in node:
            return node
        inner, inner_rule, _ = _inner(shape, key, top=top)
        fields = dict(node)
        if rest:
            fields[key] = _removed(node[key], rest, inner, inner_rule)
        if not rest or (fields[key] == [] and node[key]):
            del fields[key]
        return fields
    if not isinstance(node, list) or rule is None:
        return node
    steps = [_item_step(item, rule) for item in node]
    if step not in steps:
        return node
    place = steps.index(step)
    changed = [_removed(node[place], rest, shape)] if rest else []
    return [*node[:place], *changed, *node[place + 1 :]]
