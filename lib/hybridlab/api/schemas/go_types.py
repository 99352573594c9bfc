# SPDX-License-Identifier: Apache-2.0
"""The real server's messages about a value that does not fit the Go type of its field.

On a real server, kinds are Go structs. A number in place of a string is refused while the body is
decoded, before any other check. The message names the struct, the field's path and the type.
"""

import re
from typing import Any

from hybridlab.api.schemas.shapes import Path_, Shape, json_type, shapes

_JSON_WORDS = {"integer": "number", "number": "number", "boolean": "bool"}
_LONG = frozenset({
    "activeDeadlineSeconds", "deletionGracePeriodSeconds", "expirationSeconds", "fsGroup", "gracePeriodSeconds",
    "generation", "observedGeneration", "runAsGroup", "runAsUser", "supplementalGroups",
    "terminationGracePeriodSeconds", "tolerationSeconds",
})  # fmt: skip
"""Fields that are integers of 64 bits; all others have 32."""
_SCALARS = {"s": "string", "b": "bool", "n": "float64", "o": "interface {}"}
_VERSION = re.compile(r"^(?:[A-Z][a-z]+)?V\d+(?=[A-Z])")


def decoding_problem(root: Shape, path: Path_, value: Any) -> str:
    """Return, in Go's wording, why ``value`` is not possible at ``path`` of an object of type
    ``root``."""
    steps: list[Any] = []
    while path is not None:
        path, step = path
        steps.insert(0, step)
    struct = root
    code = ""
    names = []
    for step in steps:
        if isinstance(step, str) and not step.startswith("["):
            names.append(step)
            inner = shapes().get(code[1:]) if code.startswith(".") else None
            struct = inner or struct
            code = struct.codes.get(step, "o")
        else:
            code = code[1:]
    given = _JSON_WORDS.get(json_type(value), json_type(value))
    match code[:1]:
        case "t" | "q":
            return f"json: cannot unmarshal {given} into Go value of type string"
        case "I":
            return f"json: cannot unmarshal {given} into Go value of type int32"
    where = f"{_go_name(struct.name)}.{'.'.join(names)}"
    return f"json: cannot unmarshal {given} into Go struct field {where} of type {_go_type(code, names[-1])}"


def _go_name(name: str) -> str:
    return _VERSION.sub("", name)


def _go_type(code: str, field: str) -> str:
    match code[:1]:
        case "[":
            return f"[]{_go_type(code[1:], field)}"
        case "{":
            return f"map[string]{_go_type(code[1:], field)}"
        case ".":
            return f"v1.{_go_name(code[1:])}"
        case "i":
            return "int64" if field in _LONG else "int32"
        case "y":
            return "[]uint8"
    return _SCALARS.get(code[:1], "interface {}")
