# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI v2 document in protobuf, which kubectl requests to validate a ``kind: List`` before
it sends the items.

Only the definitions are encoded. Paths are left out, since no client reads them in this form.
Field numbers are those of openapi_v2.Document in google/gnostic-models
(openapiv2/OpenAPIv2.proto).
"""

from collections.abc import Iterator
from typing import Any, Final

import orjson

from hybridlab.api.contract import Obj

ACCEPTED: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""The format that clients request."""
CONTENT_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_DOCUMENT_SWAGGER = 1
_DOCUMENT_INFO = 2
_DOCUMENT_DEFINITIONS = 9
_INFO_TITLE = 1
_INFO_VERSION = 2
_REFERENCE = 1
_FORMAT = 2
_REQUIRED = 19
_ADDITIONAL = 21
_TYPE = 22
_ITEMS = 23
_PROPERTIES = 25
_EXTENSION = 31
_NAME = 1
_VALUE = 2
_ONLY = 1
_YAML = 2
_BYTES: Final = 2
"""The wire type of bytes."""


def encoded(swagger: Obj) -> bytes:
    """Encode a document that :meth:`OpenApi.swagger` made."""
    info = _text(_INFO_TITLE, swagger["info"]["title"]) + _text(
        _INFO_VERSION, swagger["info"]["version"]
    )
    definitions = _named(swagger["definitions"])
    return b"".join(
        (
            _text(_DOCUMENT_SWAGGER, swagger["swagger"]),
            _field(_DOCUMENT_INFO, info),
            _field(_DOCUMENT_DEFINITIONS, definitions),
        )
    )


def _named(schemas: Obj) -> bytes:
    """Return schemas by name, for definitions or for properties."""
    return b"".join(
        _field(_ONLY, _text(_NAME, name) + _field(_VALUE, _schema(schema)))
        for name, schema in schemas.items()
    )


def _schema(schema: Obj) -> bytes:
    return b"".join(_parts(schema))


def _parts(schema: Obj) -> Iterator[bytes]:
    for key, value in schema.items():
        match key:
            case "$ref":
                yield _text(_REFERENCE, value)
            case "format":
                yield _text(_FORMAT, value)
            case "required":
                yield from (_text(_REQUIRED, name) for name in value)
            case "additionalProperties" if isinstance(value, dict):
                yield _field(_ADDITIONAL, _field(_ONLY, _schema(value)))
            case "type":
                yield _field(_TYPE, _text(_ONLY, value))
            case "items":
                yield _field(_ITEMS, _field(_ONLY, _schema(value)))
            case "properties":
                yield _field(_PROPERTIES, _named(value))
            case _ if key.startswith("x-"):
                yield _field(
                    _EXTENSION,
                    _text(_NAME, key) + _field(_VALUE, _field(_YAML, orjson.dumps(value))),
                )


def _text(number: int, text: Any) -> bytes:
    return _field(number, str(text).encode())


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))
