# SPDX-License-Identifier: Apache-2.0
"""Checks objects against the fields of their kind: unknown and missing fields, wrong types.

The shapes come from ``kubernetes.json`` (made by ``tools/generate_api_schemas.py``) and from
``calico.py``. Checking also normalises the object, as the real server's decoder does: ``null``
means absent, an unknown field is dropped (and reported), a quantity given as a number becomes a
string. Rules about values in addition to their types are in ``kinds/``.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from hybridlab.api.contract import Obj
from hybridlab.api.errors import Cause, invalid_value, required
from hybridlab.api.quantities import canonical

Path_ = tuple[Any, Any] | None
"""A field's path as linked pairs (parent, step). It is converted to text only to report a fault."""

Check = Callable[[Any, Path_, "Findings"], Any]

_QUANTITY = re.compile(r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+|[KMGTPE]i|[numkMGTPE])?$")
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")
_MICRO_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$")
_TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
QUANTITY_RULE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


def render(path: Path_) -> str:
    """Write a path as the real server does: ``spec.containers[0].name``, ``metadata.labels[app]``."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(step if isinstance(step, str) else f"[{step}]")
    text = ""
    for step in reversed(steps):
        text += step if step.startswith("[") or not text else f".{step}"
    return text


@dataclass
class Findings:
    """The faults of an object's fields."""

    causes: list[Cause] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Paths of fields that the kind does not have."""
    undecodable: list[tuple[Path_, Any, str]] = field(default_factory=list)
    """Values that a Go type cannot hold: the place, the value, and the reason (empty if the JSON
    type is wrong)."""
    filling: bool = False
    """Inside status: a missing scalar becomes its zero value, as Go writes it, instead of being an error."""

    def wrong_type(self, path: Path_, value: object, wanted: str) -> None:
        """Report a value of the wrong JSON type."""
        at = render(path)
        given = json_type(value)
        message = f'Invalid value: "{given}": {at} in body must be of type {wanted}: "{given}"'
        self.causes.append(Cause("FieldValueTypeInvalid", at, message))
        self.undecodable.append((path, value, ""))

    def malformed(self, path: Path_, value: str, why: str) -> None:
        """Report text that does not have the form that its field requires."""
        self.causes.append(invalid_value(render(path), value, why))
        self.undecodable.append((path, value, why))


def json_type(value: object) -> str:
    """Name the JSON type of a value."""
    names = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        dict: "object",
        list: "array",
    }
    return names.get(type(value), "null")


@dataclass(frozen=True, slots=True)
class ListRule:
    """The rule by which two lists of a field are merged."""

    patch_key: str = ""
    """Items with the same value of this field are the same item (strategic merge)."""
    keys: tuple[str, ...] = ()
    """Items with the same values of these fields are the same item (server-side apply)."""
    is_set: bool = False
    """A list of scalars without duplicates."""
    retain_keys: bool = False


@dataclass(slots=True, eq=False)
class Shape:
    """The fields of a type."""

    name: str
    codes: Mapping[str, str]
    required: tuple[str, ...] = ()
    lists: Mapping[str, ListRule] = field(default_factory=dict)
    atomic: bool = False
    """The field is replaced as a whole by server-side apply."""
    checks: dict[str, Check] = field(default_factory=dict)

    def check(self, value: Any, path: Path_, findings: Findings) -> Any:
        """Check an object in place; its unknown fields are dropped."""
        if type(value) is not dict:
            findings.wrong_type(path, value, "object")
            return value
        checks = self.checks
        dropped: list[str] = []
        for key, item in value.items():
            checker = checks.get(key)
            if item is None:
                dropped.append(key)
                if checker is None:
                    findings.unknown.append(render((path, key)))
            elif checker is None:
                findings.unknown.append(render((path, key)))
                dropped.append(key)
            else:
                fixed = checker(item, (path, key), findings)
                if fixed is not item:
                    value[key] = fixed
        for key in dropped:
            del value[key]
        for key in self.required:
            if key not in value:
                zero = _ZERO.get(self.codes[key][0]) if findings.filling else None
                if zero is not None:
                    value[key] = zero
                else:
                    findings.causes.append(required(render((path, key))))
        return value


_ZERO: Mapping[str, Any] = {"s": "", "i": 0, "b": False}


def _of(words: str, *types: type) -> Check:
    def check(value: Any, path: Path_, findings: Findings) -> Any:
        if type(value) not in types:
            findings.wrong_type(path, value, words)
        return value

    return check


def _moment(pattern: re.Pattern[str], layout: str) -> Check:
    def check(value: Any, path: Path_, findings: Findings) -> Any:
        if type(value) is not str:
            findings.wrong_type(path, value, "string")
        elif not pattern.match(value):
            findings.malformed(path, value, time_problem(value, layout))
        return value

    return check


def time_problem(value: str, layout: str) -> str:
    """Return why a text is no time, in the words of Go's parser."""
    rest = value
    wanted = layout
    for part in re.split(r"([-T:.]|Z07:00|\.0+)", layout):
        digits = re.match(rf"\d{{{len(part)}}}", rest) if part.isdigit() else None
        if digits is not None or (part and rest.startswith(part)):
            rest = rest[len(part) :]
            wanted = wanted[len(part) :]
        elif part:
            break
    shown_part = (
        "Z07:00" if wanted == "Z07:00" else re.split(r"(?<=\d)[-T:.Z]", wanted)[0] or wanted[:1]
    )
    return f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as "{shown_part}"'


def _quantity(value: Any, path: Path_, findings: Findings) -> Any:
    if type(value) is int or type(value) is float:
        value = str(value)
    if type(value) is not str:
        findings.wrong_type(path, value, "string")
        return value
    if not _QUANTITY.match(value):
        findings.malformed(path, value, QUANTITY_RULE)
        return value
    return canonical(value)


def _base64(value: Any, path: Path_, findings: Findings) -> Any:
    if type(value) is not str:
        findings.wrong_type(path, value, "string")
        return value
    try:
        b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        good = re.match(r"[A-Za-z0-9+/]*", value)
        findings.malformed(
            path, value, f"illegal base64 data at input byte {good.end() if good else 0}"
        )
    return value


def _anything(value: Any, path: Path_, findings: Findings) -> Any:
    return value


_SCALARS: Mapping[str, Check] = {
    "s": _of("string", str),
    "i": _of("integer", int),
    "n": _of("number", int, float),
    "b": _of("boolean", bool),
    "I": _of("integer or string", int, str),
    "t": _moment(_TIME, _TIME_LAYOUT),
    "T": _moment(_MICRO_TIME, _MICRO_LAYOUT),
    "q": _quantity,
    "y": _base64,
    "o": _anything,
}


def _list_of(inner: Check) -> Check:
    def check(value: Any, path: Path_, findings: Findings) -> Any:
        if type(value) is not list:
            findings.wrong_type(path, value, "array")
            return value
        for index, item in enumerate(value):
            fixed = inner(item, (path, index), findings)
            if fixed is not item:
                value[index] = fixed
        return value

    return check


def _map_of(inner: Check) -> Check:
    def check(value: Any, path: Path_, findings: Findings) -> Any:
        if type(value) is not dict:
            findings.wrong_type(path, value, "object")
            return value
        for key, item in value.items():
            fixed = inner("" if item is None else item, (path, f"[{key}]"), findings)
            if fixed is not item:
                value[key] = fixed
        return value

    return check


class Shapes:
    """All shapes, by name."""

    def __init__(self, sources: Mapping[str, Mapping[str, Any]]) -> None:
        self._shapes: dict[str, Shape] = {}
        for name, entry in sources.items():
            rules = {
                key: ListRule(rule.get("p", ""), tuple(rule.get("k", ())), "s" in rule, "c" in rule)
                for key, rule in entry.get("k", {}).items()
            }
            self._shapes[name] = Shape(
                name, entry["f"], tuple(entry.get("r", ())), rules, "a" in entry
            )
        for shape in self._shapes.values():
            shape.checks = {key: self._checker(code) for key, code in shape.codes.items()}

    def _checker(self, code: str) -> Check:
        first = code[0]
        if first == "[":
            return _list_of(self._checker(code[1:]))
        if first == "{":
            return _map_of(self._checker(code[1:]))
        return self._shapes[code[1:]].check if first == "." else _SCALARS[first]

    def named(self, name: str) -> Shape:
        return self._shapes[name]

    def get(self, name: str) -> Shape | None:
        """Return the shape of a type; None if there is none with this name."""
        return self._shapes.get(name)

    def of(self, api_version: str, kind: str) -> Shape | None:
        """Return the shape of an object; return None if its kind may have any fields (custom
        resources, kinds of the operator)."""
        return self._shapes.get(shape_name(api_version, kind))


_NAMED = {
    ("v1", "Event"): "CoreV1Event",
    ("events.k8s.io/v1", "Event"): "EventsV1Event",
    ("v1", "TokenRequest"): "AuthenticationV1TokenRequest",
    ("authentication.k8s.io/v1", "TokenRequest"): "AuthenticationV1TokenRequest",
}


def shape_name(api_version: str, kind: str) -> str:
    """Return the name of the type of an object's root."""
    named = _NAMED.get((api_version, kind))
    if named:
        return named
    group = api_version.rpartition("/")[0]
    if group == "projectcalico.org":
        return f"V3{kind}"
    if group == "" or group.endswith(".k8s.io") or group in {"apps", "policy"}:
        return f"V1{kind}"
    return ""


@cache
def shapes() -> Shapes:
    """Return all shapes; their data are read once per process (about 5 ms)."""
    from hybridlab.api.schemas.calico import CALICO_TYPES

    data = orjson.loads((Path(__file__).parent / "kubernetes.json").read_bytes())
    return Shapes({**data, **CALICO_TYPES})


def check_object(shape: Shape | None, obj: Obj, *, filling: bool = False) -> Findings:
    """Check ``obj`` in place; without a shape, check only its metadata."""
    findings = Findings()
    if shape is None:
        shapes().named("V1ObjectMeta").check(obj["metadata"], (None, "metadata"), findings)
        return findings
    status = obj.pop("status", None)
    shape.check(obj, None, findings)
    if status is not None and "status" in shape.checks:
        findings.filling = True
        obj["status"] = shape.checks["status"](status, (None, "status"), findings)
    elif status is not None:
        findings.unknown.append("status")
    return findings
