# SPDX-License-Identifier: Apache-2.0
"""The three formats of patches: JSON patch (RFC 6902), JSON merge patch (RFC 7386), strategic merge
patch.

All functions return new objects and share unchanged parts with the old objects.
"""

from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.errors import GenericError, bad_request, unexplained
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


def json_patch(target: Obj, operations: list[Any]) -> Obj:
    """Apply a JSON patch; a failed test or a bad path raises ApiError 422."""
    import jsonpatch  # takes 20 ms, and most labs never get a JSON patch

    try:
        result: Any = target
        for operation in operations:
            result = jsonpatch.JsonPatch([_as_add(result, operation)]).apply(result)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        message = "the server rejected our request due to an error in our request"
        raise GenericError(422, "Invalid", message) from error
    except (TypeError, KeyError, AttributeError) as error:
        raise bad_request(f"error decoding patch: {error}") from error
    return dict(result)


def _as_add(target: Any, operation: Any) -> Any:
    """Return an operation; ``replace`` of a field that does not exist becomes ``add``, as in the
    real server's library."""
    if not isinstance(operation, dict) or operation.get("op") != "replace":
        return operation
    *parents, last = [
        step.replace("~1", "/").replace("~0", "~")
        for step in str(operation.get("path")).split("/")[1:]
    ]
    for step in parents:
        target = target.get(step) if isinstance(target, dict) else None
    return (
        {**operation, "op": "add"} if isinstance(target, dict) and last not in target else operation
    )


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
        raise unexplained(f"unknown patch type: {directive} in map: map[$patch:{directive}]")
    before: Obj = target if isinstance(target, dict) else {}
    retain = patch.get("$retainKeys")
    result = dict(before)
    if isinstance(retain, list):
        result = {key: value for key, value in before.items() if key in retain}
    for key, value in patch.items():
        _merge_field(result, key, value, shape)
    for key, order in patch.items():
        if key.startswith(_ORDER):
            _order_list(result, before, key.removeprefix(_ORDER), order, shape)
    return result


_ORDER = "$setElementOrder/"
_DELETE_ITEMS = "$deleteFromPrimitiveList/"


def _merge_field(result: Obj, key: str, value: Any, shape: Shape | None) -> None:
    """Merge one field of a patch into ``result``; skip directives for the whole map."""
    if key in {"$patch", "$retainKeys"} or key.startswith(_ORDER):
        return
    if key.startswith(_DELETE_ITEMS):
        name = key.removeprefix(_DELETE_ITEMS)
        result[name] = [item for item in result.get(name) or () if item not in value]
    elif value is None:
        result.pop(key, None)
    elif isinstance(value, list):
        rule = _rule(shape, key)
        result[key] = _merge_list(result.get(key), value, rule, _inner_shape(shape, key, "[."))
    else:
        result[key] = strategic_merge(result.get(key), value, _inner_shape(shape, key, "."))


def _order_list(result: Obj, before: Obj, key: str, order: list[Any], shape: Shape | None) -> None:
    rule = _rule(shape, key)
    if rule and isinstance(result.get(key), list):
        result[key] = _ordered(result[key], order, before.get(key) or [], rule)


def _rule(shape: Shape | None, key: str) -> ListRule | None:
    return shape.lists.get(key) if shape else None


def _inner_shape(shape: Shape | None, key: str, prefix: str) -> Shape | None:
    """Return the shape of an object field (``prefix`` "."), or of the items of a list ("[.")."""
    code = shape.codes.get(key, "") if shape else ""
    return shapes().get(code.removeprefix(prefix)) if code.startswith(prefix) else None


def _merge_list(
    target: Any, patch: list[Any], rule: ListRule | None, shape: Shape | None
) -> list[Any]:
    if rule is None:
        return [item for item in patch if not (isinstance(item, dict) and "$patch" in item)]
    before = list(target) if isinstance(target, list) else []
    if rule.is_set:
        return _ordered(
            before + [item for item in patch if item not in before], patch, before, rule
        )
    if {"$patch": "replace"} in patch:
        return [item for item in patch if item != {"$patch": "replace"}]
    current = before
    for item in patch:
        current = _merge_item(current, item, rule.patch_key, shape)
    return _ordered(
        current, [item for item in patch if item.get("$patch") != "delete"], before, rule
    )


def _merge_item(current: list[Any], item: Any, key: str, shape: Shape | None) -> list[Any]:
    """Return a list after one item of the patch, which ``key`` identifies, is merged into it."""
    if not isinstance(item, dict) or key not in item:
        shown = item
        if isinstance(item, dict):
            shown = " ".join(f"{name}:{value}" for name, value in item.items())
        raise unexplained(f"map: map[{shown}] does not contain declared merge key: {key}")
    same = [old.get(key) == item[key] for old in current]
    if item.get("$patch") == "delete":
        return [old for old, is_same in zip(current, same, strict=True) if not is_same]
    if True not in same:
        return [*current, strategic_merge({}, item, shape)]
    place = same.index(True)
    return [*current[:place], strategic_merge(current[place], item, shape), *current[place + 1 :]]


def _ordered(items: list[Any], order: list[Any], before: list[Any], rule: ListRule) -> list[Any]:
    """Sort the items of a merged list: items in ``order`` in that order, all other items in the
    order of ``before``.

    An item that only the server has comes before an item of the patch only if it did so in
    ``before`` too.
    """

    def identity(item: Any) -> Any:
        return item.get(rule.patch_key) if isinstance(item, dict) and not rule.is_set else item

    wanted = {identity(item): index for index, item in enumerate(order)}
    known = {identity(item): index for index, item in enumerate(before)}
    named = sorted(
        (item for item in items if identity(item) in wanted),
        key=lambda item: wanted[identity(item)],
    )
    others = [item for item in items if identity(item) not in wanted]
    others.sort(key=lambda item: known.get(identity(item), len(known)))
    result: list[Any] = []
    while named and others:
        mine = known.get(identity(named[0]))
        theirs = known.get(identity(others[0]))
        first_is_old = mine is not None and theirs is not None and theirs < mine
        result.append(others.pop(0) if first_is_old else named.pop(0))
    return [*result, *named, *others]
