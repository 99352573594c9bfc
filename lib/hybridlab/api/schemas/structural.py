# SPDX-License-Identifier: Apache-2.0
"""Checks custom resources against the openAPIV3Schema of their definition.

It applies type, properties, additionalProperties, items, required, enum, pattern, lengths, ranges,
nullable, default, int-or-string and preserve-unknown-fields; allOf/anyOf/oneOf/not only as checks.
Unknown fields are dropped and reported.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from ipaddress import ip_address
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.errors import Cause, duplicate, invalid_value, required, shown, unsupported
from hybridlab.api.schemas.shapes import Findings, Path_, json_type, render, shapes


def _is_address(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return ip_address(text).version == version
        except ValueError:
            return False

    return check


def _is_time(text: str) -> bool:
    try:
        return "T" in text.upper() and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


_FORMS: Mapping[str, Callable[[str], bool]] = {
    "ipv4": _is_address(4), "ipv6": _is_address(6), "date-time": _is_time,
}  # fmt: skip
"""Formats that are checked, among those that the real server knows."""
Schema = Mapping[str, Any]
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


def check_custom(schema: Schema, obj: Obj) -> Findings:
    """Check and complete a custom resource in place."""
    findings = Findings()
    shapes().named("V1ObjectMeta").check(obj["metadata"], (None, "metadata"), findings)
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    open_root = bool(schema.get(_PRESERVE))
    for key in list(obj):
        if key in {"apiVersion", "kind", "metadata"}:
            continue
        part = properties.get(key)
        if part is not None:
            obj[key] = _check(part, obj[key], (None, key), findings)
        elif not open_root:
            findings.unknown.append(key)
            del obj[key]
    _complete(schema, obj, None, findings)
    return findings


def _copy(value: Any) -> Any:
    import orjson

    return orjson.loads(orjson.dumps(value))


def _check(schema: Schema, value: Any, path: Path_, findings: Findings) -> Any:
    if value is None:
        if not schema.get("nullable"):
            findings.wrong_type(path, value, schema.get("type", "object"))
        return value
    if schema.get("x-kubernetes-int-or-string"):
        if type(value) is not int and type(value) is not str:
            findings.wrong_type(path, value, "integer,string")
        return value
    wanted = schema.get("type")
    if wanted and not _is(wanted, value):
        findings.wrong_type(path, value, wanted)
        return value
    if isinstance(value, dict):
        _check_object(schema, value, path, findings)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                value[index] = _check(items, item, (path, index), findings)
        keys = schema.get("x-kubernetes-list-map-keys")
        if keys:
            _check_keys(value, keys, path, findings)
        _check_size(schema, len(value), ("minItems", "maxItems"), path, findings)
    _check_value(schema, value, path, findings)
    return value


def _is(wanted: str, value: Any) -> bool:
    given = json_type(value)
    return given == wanted or (wanted == "number" and given == "integer")


def _check_object(schema: Schema, value: Obj, path: Path_, findings: Findings) -> None:
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    for key in list(value):
        part = properties.get(key)
        if part is None:
            _check_additional(schema, value, key, path, findings)
        elif value[key] is None and not part.get("nullable"):
            del value[key]  # as the real server does with a null where null is not allowed
        else:
            value[key] = _check(part, value[key], (path, key), findings)
    _complete(schema, value, path, findings)
    _check_size(schema, len(value), ("minProperties", "maxProperties"), path, findings)


def _complete(schema: Schema, value: Obj, path: Path_, findings: Findings) -> None:
    """Fill in the defaults of an object, and report required fields that it still lacks."""
    for key, part in (schema.get("properties") or {}).items():
        if key not in value and "default" in part:
            value[key] = _check(part, _copy(part["default"]), (path, key), findings)
    findings.causes.extend(
        required(render((path, key))) for key in schema.get("required") or () if key not in value
    )


def _check_keys(items: list[Any], keys: list[str], path: Path_, findings: Findings) -> None:
    """Refuse items of a keyed list that have the same key."""
    observed: list[Obj] = []
    for index, item in enumerate(items):
        key = {name: item[name] for name in keys if isinstance(item, dict) and name in item}
        if key and key in observed:
            findings.causes.append(duplicate(render((path, index)), key))
        observed.append(key)


def _check_size(
    schema: Schema, size: int, limits: tuple[str, str], path: Path_, findings: Findings
) -> None:
    low = schema.get(limits[0])
    high = schema.get(limits[1])
    at = render(path)
    if low is not None and size < low:
        findings.causes.append(
            invalid_value(at, size, f"{at} in body should have at least {low} items")
        )
    if high is not None and size > high:
        findings.causes.append(
            Cause("FieldValueTooMany", at, f"Too many: {size}: must have at most {high} items")
        )


def _check_additional(
    schema: Schema, value: Obj, key: str, path: Path_, findings: Findings
) -> None:
    """Check a field that the schema does not name; remove it unless the schema keeps such
    fields."""
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        value[key] = _check(additional, value[key], (path, key), findings)
    elif additional is not True and not any(
        schema.get(name) for name in (_PRESERVE, "x-kubernetes-embedded-resource")
    ):
        findings.unknown.append(render((path, key)))
        del value[key]


def _check_value(schema: Schema, value: Any, path: Path_, findings: Findings) -> None:
    at = render(path)
    causes = findings.causes
    if "enum" in schema and value not in schema["enum"]:
        causes.append(unsupported(at, value, [str(item) for item in schema["enum"]]))
    if isinstance(value, str):
        causes.extend(_of_text(schema, value, at))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        causes.extend(_of_number(schema, value, at))
    for name in ("allOf", "anyOf", "oneOf"):
        if name in schema:
            fitting = sum(_fits(part, value) for part in schema[name])
            total = len(schema[name])
            if not {"allOf": fitting == total, "anyOf": fitting > 0, "oneOf": fitting == 1}[name]:
                text = f"{at} in body must validate {name} of its schemas"
                causes.append(invalid_value(at, value, text))
    if "not" in schema and _fits(schema["not"], value):
        causes.append(invalid_value(at, value, f"{at} in body must not validate the schema (not)"))


def _of_text(schema: Schema, value: str, at: str) -> Iterator[Cause]:
    form = schema.get("format", "")
    if form in _FORMS and not _FORMS[form](value):
        text = f'Invalid value: "{value}": {at} in body must be of type {form}: "{value}"'
        yield Cause("FieldValueTypeInvalid", at, text)
    pattern = schema.get("pattern")
    if pattern and not re.search(pattern, value):
        yield invalid_value(at, value, f"{at} in body should match '{pattern}'")
    if len(value) < schema.get("minLength", 0):
        text = f"{at} in body should be at least {schema['minLength']} chars long"
        yield invalid_value(at, value, text)
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        text = f"Too long: may not be more than {schema['maxLength']} bytes"
        yield Cause("FieldValueTooLong", at, text)


def _of_number(schema: Schema, value: float, at: str) -> Iterator[Cause]:
    low = schema.get("minimum")
    high = schema.get("maximum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        text = f"{at} in body should be greater than or equal to {shown(low)}"
        yield invalid_value(at, value, text)
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        text = f"{at} in body should be less than or equal to {shown(high)}"
        yield invalid_value(at, value, text)


def _fits(schema: Schema, value: Any) -> bool:
    """Return whether a value passes a schema's checks; fields that the schema does not name are
    allowed."""
    findings = Findings()
    _check({**schema, _PRESERVE: True}, _copy(value), None, findings)
    return not findings.causes
