"""The three ways to patch: JSON patch (RFC 6902), JSON merge patch (RFC 7386), strategic merge patch.

All return new objects and share what did not change with the old ones.
"""

from __future__ import annotations

from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.errors import bad_request, invalid
from hybridlab.api.schemas.shapes import ListRule, Shape, shapes


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch: null deletes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(target: Obj, operations: list[Any], kind: str, name: str) -> Obj:
    """Apply a JSON patch; a failed test or a bad path is ApiError 422."""
    import jsonpatch  # 20 ms, and most labs never see a JSON patch

    try:
        result: Obj = jsonpatch.JsonPatch(operations).apply(target)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        refused = invalid(kind, "", name, ())
        refused.message = f"the server rejected our request due to an error in our request: {error}"
        raise refused from error
    except (TypeError, KeyError, AttributeError) as error:
        raise bad_request(f"error decoding patch: {error}") from error
    return result


def strategic_merge(target: Any, patch: Any, shape: Shape | None) -> Any:
    """Apply a strategic merge patch: as a merge patch, but lists with a merge key merge item by item."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise bad_request(f"Unknown patch type: {directive}")
    result = dict(target) if isinstance(target, dict) else {}
    retain = patch.get("$retainKeys")
    if isinstance(retain, list):
        result = {key: value for key, value in result.items() if key in retain}
    orders: dict[str, list[Any]] = {}
    for key, value in patch.items():
        if key in {"$patch", "$retainKeys"}:
            continue
        if key.startswith("$setElementOrder/"):
            orders[key.partition("/")[2]] = value
        elif key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [item for item in result.get(name) or () if item not in value]
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, list):
            rule = shape.lists.get(key) if shape else None
            result[key] = _merge_list(result.get(key), value, rule, _item_shape(shape, key))
        else:
            result[key] = strategic_merge(result.get(key), value, _field_shape(shape, key))
    for key, order in orders.items():
        rule = shape.lists.get(key) if shape else None
        if rule and isinstance(result.get(key), list):
            result[key] = _ordered(result[key], order, rule)
    return result


def _field_shape(shape: Shape | None, key: str) -> Shape | None:
    code = shape.codes.get(key, "") if shape else ""
    return shapes().get(code[1:]) if code.startswith(".") else None


def _item_shape(shape: Shape | None, key: str) -> Shape | None:
    code = shape.codes.get(key, "") if shape else ""
    return shapes().get(code[2:]) if code.startswith("[.") else None


def _merge_list(target: Any, patch: list[Any], rule: ListRule | None, shape: Shape | None) -> list[Any]:
    if rule is None:
        return [item for item in patch if not (isinstance(item, dict) and "$patch" in item)]
    current = list(target) if isinstance(target, list) else []
    if rule.is_set:
        return current + [item for item in patch if item not in current]
    if {"$patch": "replace"} in patch:
        return [item for item in patch if item != {"$patch": "replace"}]
    key = rule.patch_key
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        places = [index for index, old in enumerate(current) if old.get(key) == item[key]]
        if item.get("$patch") == "delete":
            current = [old for index, old in enumerate(current) if index not in places]
        elif places:
            current[places[0]] = strategic_merge(current[places[0]], item, shape)
        else:
            current.append(strategic_merge({}, item, shape))
    return current


def _ordered(items: list[Any], order: list[Any], rule: ListRule) -> list[Any]:
    """Sort as the patch's author sees the list; items unknown to the author keep their place at the end."""
    if rule.is_set:
        wanted = {value: index for index, value in enumerate(order)}
        return sorted(items, key=lambda item: wanted.get(item, len(wanted)))
    key = rule.patch_key
    places = {entry.get(key): index for index, entry in enumerate(order) if isinstance(entry, dict)}
    return sorted(items, key=lambda item: places.get(item.get(key), len(places)))
