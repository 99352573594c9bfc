# SPDX-License-Identifier: Apache-2.0
"""The refusals of the API server, with the wording and reasons of the real server.

There is a function for each refusal; it returns an :class:`ApiError` to raise. Wording and
``details`` follow ``k8s.io/apimachinery/pkg/api/errors`` as its clients receive them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hybridlab.api.contract import ApiError, Obj

CauseType = Literal[
    "FieldValueRequired",
    "FieldValueInvalid",
    "FieldValueForbidden",
    "FieldValueNotSupported",
    "FieldValueDuplicate",
    "FieldValueTypeInvalid",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueNotFound",
    "FieldManagerConflict",
]

_CAUSE_WORDS: Mapping[str, str] = {
    "FieldValueRequired": "Required value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueTypeInvalid": "Invalid value",
    "FieldValueTooLong": "Too long",
    "FieldValueNotFound": "Not found",
}
_WITHOUT_VALUE = frozenset({"FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong"})


@dataclass(frozen=True)
class Cause:
    """A wrong field: the problem, the field (``spec.containers[0].name``), and the reason."""

    type: CauseType
    field: str
    message: str

    @staticmethod
    def of(kind: CauseType, field: str, value: object, detail: str) -> Cause:
        """Return a cause in the real server's wording, with the value where the server includes
        it."""
        words = _CAUSE_WORDS[kind]
        if kind not in _WITHOUT_VALUE:
            words = f"{words}: {shown(value)}"
        return Cause(kind, field, f"{words}: {detail}" if detail else words)


def required(field: str, detail: str = "") -> Cause:
    """Return the cause for a field that must be set and is not."""
    return Cause.of("FieldValueRequired", field, None, detail)


def invalid_value(field: str, value: object, detail: str) -> Cause:
    """Return the cause for a field with a value that is malformed or not allowed."""
    return Cause.of("FieldValueInvalid", field, value, detail)


def forbidden_field(field: str, detail: str) -> Cause:
    """Return the cause for a field that must not be set, or not be changed."""
    return Cause.of("FieldValueForbidden", field, None, detail)


def unsupported(field: str, value: object, allowed: Sequence[str]) -> Cause:
    """Return the cause for a field with a value that is not in ``allowed``."""
    listed = ", ".join(f'"{item}"' for item in allowed)
    return Cause.of("FieldValueNotSupported", field, value, f"supported values: {listed}")


def duplicate(field: str, value: object) -> Cause:
    """Return the cause for a list entry that repeats the key of an earlier entry."""
    return Cause.of("FieldValueDuplicate", field, value, "")


def shown(value: object) -> str:
    """Return ``value`` as the real server prints a bad value: strings quoted, objects as JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, dict | list):
        import orjson  # only errors need it

        return orjson.dumps(value).decode()
    return "null" if value is None else str(value)


def qualified(plural: str, group: str) -> str:
    """Return a resource's name for messages: ``pods`` or ``deployments.apps``."""
    return f"{plural}.{group}" if group else plural


def _details(plural: str, group: str, name: str, **more: Any) -> dict[str, Any]:
    about = {"name": name, "group": group, "kind": plural}
    return {key: value for key, value in about.items() if value} | more


def not_found(plural: str, group: str, name: str) -> ApiError:
    """Return a 404: no such object."""
    message = f'{qualified(plural, group)} "{name}" not found'
    return ApiError(404, "NotFound", message, _details(plural, group, name))


class GenericError(ApiError):
    """An error about no particular object: the Status has details, but they are empty."""


class PlainError(ApiError):
    """An answer in plain text, which the real server gives before it has parsed a request."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, "", message)


class NoSuchPage(PlainError):
    """A 404: nothing is served below this path."""

    def __init__(self) -> None:
        super().__init__(404, "404 page not found\n")


def no_such_resource() -> ApiError:
    """Return a 404: the path names no resource that this server serves."""
    return GenericError(404, "NotFound", "the server could not find the requested resource")


def already_exists(plural: str, group: str, name: str, *, ending: bool = False) -> ApiError:
    """Return a 409: the object to create exists already. ``ending``: the existing object is being
    deleted."""
    message = f'{qualified(plural, group)} "{name}" already exists'
    if ending:
        message = f"object is being deleted: {message}"
    return ApiError(409, "AlreadyExists", message, _details(plural, group, name))


def conflict(plural: str, group: str, name: str, why: str) -> ApiError:
    """Return a 409: the write is based on an outdated object."""
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(plural, group, name))


STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """Return a 422: the object as a whole was understood, but the given fields are wrong."""
    parts = [f"{cause.field}: {cause.message}" for cause in causes]
    text = parts[0] if len(parts) == 1 else "[" + ", ".join(parts) + "]"
    shown_kind = f"{kind}.{group}" if group else kind
    listed = [{"reason": c.type, "message": c.message, "field": c.field} for c in causes]
    details = _details(kind, group, name, causes=listed)
    return ApiError(422, "Invalid", f'{shown_kind} "{name}" is invalid: {text}', details)


def forbidden(plural: str, group: str, name: str, why: str) -> ApiError:
    """Return a 403: the request was understood, but is not allowed."""
    named = f' "{name}"' if name else ""
    message = f"{qualified(plural, group)}{named} is forbidden: {why}"
    if not plural:
        return GenericError(403, "Forbidden", f"forbidden: {why}")
    return ApiError(403, "Forbidden", message, _details(plural, group, name))


def unauthorized() -> ApiError:
    """Return a 401: the credentials are missing, unknown or expired."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def bad_request(message: str) -> ApiError:
    """Return a 400: the request itself makes no sense."""
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    """Return a 410: the requested resourceVersion or continue token is no longer kept."""
    return ApiError(410, "Expired", message)


def method_not_allowed(
    why: str = "the server does not allow this method on the requested resource",
) -> ApiError:
    """Return a 405: the resource exists, but does not have this verb."""
    return GenericError(405, "MethodNotAllowed", why)


_FORMS = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


def unsupported_media_type() -> ApiError:
    """Return a 415: the verb does not take the body's content type."""
    message = (
        f"the body of the request was in an unknown format - accepted media types include: {_FORMS}"
    )
    return ApiError(415, "UnsupportedMediaType", message)


def unsupported_patch() -> ApiError:
    """Return a 415: the body's content type is no content type of a patch."""
    return GenericError(415, "UnsupportedMediaType", "415: Unsupported Media Type")


def not_acceptable() -> ApiError:
    """Return a 406: the client accepts no format that this server has."""
    return ApiError(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml",
    )


def options_invalid(kind: str, cause: Cause) -> ApiError:
    """Return a 422: the options of a request, such as ``CreateOptions``, make no sense."""
    return invalid(kind, "meta.k8s.io", "", [cause])


def not_a_number(text: str) -> ApiError:
    """Return a 400: a parameter is not a number."""
    return bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')


def too_many_requests(
    message: str, retry_after_seconds: int, causes: Sequence[Obj] = ()
) -> ApiError:
    """Return a 429: the request cannot be served now; ``retry_after_seconds`` also becomes the
    Retry-After header if it is above 0."""
    details = {"causes": list(causes), "retryAfterSeconds": max(0, retry_after_seconds)}
    given = {key: value for key, value in details.items() if value}
    return ApiError(429, "TooManyRequests", message, given)


def unexplained(message: str) -> ApiError:
    """Return a 500 without a reason, which is the real server's answer to some mistakes of
    clients."""
    return ApiError(500, "", message)


def internal(message: str, *, caused: bool = False) -> ApiError:
    """Return a 500: the server's own fault. ``caused``: the Status lists the message as a cause."""
    details = {"causes": [{"message": message}]} if caused else None
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", details)


def not_emulated(what: str) -> ApiError:
    """Return the 501 for a feature of real clusters that the lab lacks, so that the lab never
    pretends to have it."""
    return ApiError(501, "NotImplemented", f"not emulated: {what}")


def kind_not_emulated(resource: str) -> ApiError:
    """Return a 404: Kubernetes has this kind, but the lab does not. Clients that only check whether
    the kind exists continue."""
    return GenericError(404, "NotFound", f"not emulated: {resource}")


def status_of(error: ApiError) -> Obj:
    """Return the ``Status`` object that reports ``error`` to a client."""
    status: Obj = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
    }
    if error.reason:
        status["reason"] = error.reason
    if error.details or isinstance(error, GenericError):
        status["details"] = dict(error.details)
    status["code"] = error.code
    return status
