# SPDX-License-Identifier: Apache-2.0
"""Reads request bodies in Kubernetes' protobuf encoding; answers are always JSON.

kubectl sends protobuf in ``create``, ``auth can-i``, ``create token`` and other commands without
asking what the server accepts. A body is the bytes ``k8s\\0`` and a ``runtime.Unknown`` that names
apiVersion and kind and holds the object. Go writes fields that are not pointers even if they are
zero; such zeros are left out here, as Go's JSON leaves them out.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

from hybridlab.api.contract import Obj
from hybridlab.api.errors import bad_request

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_PACKAGES: Final = {"": "core", "rbac.authorization.k8s.io": "rbac"}
_VARINT = 0
_FIXED64 = 1
_BYTES = 2
_FIXED32 = 5

Messages = Mapping[str, Mapping[str, tuple[str, str]]]


@cache
def _messages() -> Messages:
    """Read the field numbers, once per process."""
    path = Path(__file__).parent.parent / "schemas/protobuf.json"
    numbers: Messages = orjson.loads(path.read_bytes())
    return numbers


def decode(raw: bytes) -> Obj:
    """Return the object in a body. Raise ApiError 400 if the body holds no known object."""
    if not raw.startswith(_MAGIC):
        raise bad_request("the request body is not in Kubernetes' protobuf encoding")
    try:
        envelope = dict(_fields(raw[len(_MAGIC) :]))
        identity = {number: value.decode() for number, value in _fields(envelope[1])}
        api_version = identity.get(1, "")
        kind = identity.get(2, "")
        group = api_version.rpartition("/")[0]
        package = _PACKAGES.get(group) or group.partition(".")[0]
        name = "meta.DeleteOptions" if kind == "DeleteOptions" else f"{package}.{kind}"
        if name not in _messages():
            raise bad_request(
                f"not emulated: protobuf bodies of {kind} in {api_version}; send JSON"
            )
        return {"apiVersion": api_version, "kind": kind, **_message(name, envelope.get(2, b""))}
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise bad_request(
            f"the request body is not in Kubernetes' protobuf encoding: {error!r}"
        ) from error


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field: an int, or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number = tag >> 3
        wire = tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif wire == _BYTES:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("a field is longer than the message")
            yield number, data[at : at + size]
            at += size
        elif wire in {_FIXED32, _FIXED64}:
            size = 4 if wire == _FIXED32 else 8
            yield number, data[at : at + size]
            at += size
        else:
            raise ValueError(f"wire type {wire}")


def _message(name: str, data: bytes) -> Obj:
    fields = _messages()[name]
    result: Obj = {}
    for number, value in _fields(data):
        entry = fields.get(str(number))
        if entry is None:
            continue
        key, code = entry
        if not key:
            result.update(_value(code, value))
        elif code[0] == "[":
            result.setdefault(key, []).append(_value(code[1:], value))
        elif code[0] == "{":
            pair = dict(_fields(value))
            result.setdefault(key, {})[pair.get(1, b"").decode()] = _value(
                code[1:], pair.get(2, b"")
            )
        elif code[0] == "*":
            result[key] = _value(code[1:], value)
        else:
            decoded = _value(code, value)
            if decoded is not None and (code[0] == "." or decoded):
                result[key] = decoded
    return result


def _value(code: str, value: Any) -> Any:
    match code[0]:
        case "s":
            return value.decode() if value else ""
        case "i":
            return value - (1 << 64) if value >= 1 << 63 else value
        case "b":
            return bool(value)
        case "y":
            return b64encode(value).decode()
        case "w":
            return [_value(code[1:], item) for _, item in _fields(value)]
        case ".":
            return _special(code[1:], value) if code[1:] in _SPECIAL else _message(code[1:], value)
    raise ValueError(f"type code {code}")


_SPECIAL: Final = frozenset(
    {"Quantity", "Time", "MicroTime", "IntOrString", "FieldsV1", "RawExtension"}
)


def _special(name: str, data: bytes) -> Any:
    parts = dict(_fields(data))
    if name in {"Time", "MicroTime"}:
        if not parts.get(1):
            return None
        moment = datetime.fromtimestamp(parts[1], UTC)
        if name == "Time":
            return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{parts.get(2, 0) // 1000:06d}Z"
    if name == "IntOrString":
        return parts.get(3, b"").decode() if parts.get(1) else _value("i", parts.get(2, 0))
    if name == "Quantity":
        return parts.get(1, b"").decode()
    return orjson.loads(parts.get(1) or b"null")
