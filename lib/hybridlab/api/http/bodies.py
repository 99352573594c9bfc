# SPDX-License-Identifier: Apache-2.0
"""The options and the body of a request, in all accepted formats."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from hybridlab.api.contract import ApiError, Obj
from hybridlab.api.errors import (
    Cause,
    bad_request,
    forbidden_field,
    invalid_value,
    not_a_number,
    options_invalid,
    unexplained,
    unsupported,
    unsupported_media_type,
)
from hybridlab.api.http import protobuf
from hybridlab.api.http.aio import web
from hybridlab.api.http.replies import YAML
from hybridlab.api.operations import PatchKind
from hybridlab.api.requests import DeleteOptions, WriteOptions

PATCHES: Final[Mapping[str, PatchKind]] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
}
"""Content types of patches."""
APPLY: Final = frozenset({"application/apply-patch+yaml"})
JSON: Final = frozenset({"", "application/json"})
STRATEGIC: Final = frozenset({"application/strategic-merge-patch+json"})


_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
_POLICIES = ("Foreground", "Background", "Orphan")
_MANAGER_LIMIT = 128


def flag(query: Mapping[str, str], name: str) -> bool:
    """Read a boolean of a query as the real server does: absent, ``0`` and ``false`` in any case are false.

    Every other value is true, an empty one too (``Convert_Slice_string_To_bool`` of apimachinery's
    pkg/runtime/conversion.go: "Any other value (including empty string) resolves to true").
    """
    return name in query and query[name].lower() not in {"0", "false"}


def write_options(request: web.BaseRequest) -> WriteOptions:
    """Return the options of a write. Raise ApiError 422 for invalid options."""
    query = request.query
    kind = _OPTIONS.get(request.method, "UpdateOptions")
    applying = request.content_type in APPLY
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in {"Ignore", "Warn", "Strict"}:
        raise options_invalid(
            kind, unsupported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn"))
        )
    dry_run = query.get("dryRun", "")
    if dry_run not in {"", "All"}:
        raise options_invalid(kind, unsupported("dryRun", [dry_run], ("All",)))
    manager = query.get("fieldManager", "")
    if len(manager) > _MANAGER_LIMIT:
        detail = f"Too long: may not be more than {_MANAGER_LIMIT} bytes"
        raise options_invalid(kind, Cause("FieldValueTooLong", "fieldManager", detail))
    if request.method == "PATCH" and "force" in query and not applying:
        raise options_invalid(
            kind, forbidden_field("force", "may not be specified for non-apply patch")
        )
    if not manager and not applying:
        manager = request.headers.get("User-Agent", "").partition("/")[0][:128]
    return WriteOptions(
        dry_run=dry_run == "All",
        field_manager=manager,
        field_validation=validation,  # type: ignore[arg-type]  # a valid value, checked above
        force=flag(query, "force"),
    )


async def delete_options(request: web.BaseRequest) -> DeleteOptions:
    """Return the options of a delete, from its body or its query; raise ApiError 400 for invalid
    options."""
    query = request.query
    body = _delete_body(await request.read(), request.content_type)
    grace = body.get("gracePeriodSeconds")
    if grace is None and query.get("gracePeriodSeconds"):
        grace = number(query["gracePeriodSeconds"])
    preconditions = body.get("preconditions") or {}
    return DeleteOptions(
        grace_period_seconds=grace,
        propagation=_propagation(body, query),  # type: ignore[arg-type]  # a valid value
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        dry_run="All" in (body.get("dryRun") or ()) or query.get("dryRun") == "All",
    )


def number(text: str) -> int:
    """Read a whole number of a query; raise ApiError 400 if the text is no number."""
    try:
        return int(text)
    except ValueError:
        raise not_a_number(text) from None


def _delete_body(raw: bytes, content_type: str) -> Obj:
    """Read the DeleteOptions in the body of a delete; without a body, no option is set."""
    if not raw.strip():
        return {}
    body = protobuf.decode(raw) if content_type == protobuf.CONTENT_TYPE else _parse(raw)
    if not isinstance(body, dict):
        raise bad_request("DeleteOptions must be an object")
    if body.get("kind", "DeleteOptions") != "DeleteOptions":
        raise unexplained(no_kind(body["kind"], body.get("apiVersion", "")))
    return body


def _propagation(body: Obj, query: Mapping[str, str]) -> str:
    """Return the deletion policy for dependents: Foreground, Background or Orphan."""
    policy = body.get("propagationPolicy") or query.get("propagationPolicy")
    orphans = body.get("orphanDependents")
    if orphans is None and "orphanDependents" in query:
        orphans = flag(query, "orphanDependents")
    if policy and orphans is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        raise options_invalid("DeleteOptions", invalid_value("propagationPolicy", policy, detail))
    policy = policy or ("Orphan" if orphans else "Background")
    if policy not in _POLICIES:
        cause = unsupported("propagationPolicy", policy, (*_POLICIES, "nil"))
        raise options_invalid("DeleteOptions", cause)
    return str(policy)


def no_kind(kind: str, version: str) -> str:
    """Return the real server's error for an unknown kind."""
    return f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:110"'


async def body_of(request: web.BaseRequest, accepted: frozenset[str], kind_wanted: str = "") -> Any:
    """Return a request's body. Raise ApiError 415 if its content type is not ``accepted``, 400 if
    the body cannot be read.

    ``kind_wanted`` is the expected kind of object; empty for patches.
    """
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip()
    if kind == protobuf.CONTENT_TYPE and "application/json" in accepted:
        return protobuf.decode(await request.read())
    is_yaml = (kind in APPLY and kind in accepted) or (
        kind == YAML and "application/json" in accepted
    )
    if not is_yaml and kind not in accepted and kind != "*/*":
        raise unsupported_media_type()
    return _parse(await request.read(), kind_wanted, yaml=is_yaml)


def _parse(raw: bytes, kind_wanted: str = "", *, yaml: bool = False) -> Any:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        if not yaml:
            problem = _json_problem(raw)
            raise _unrecognized(
                raw, kind_wanted, f"couldn't get version/kind; json parse error: {problem}"
            ) from None
        from hybridlab.api.http.yaml_bodies import (  # takes 30 ms, and most labs never get YAML
            YamlProblem,
            from_yaml,
        )

        try:
            body = from_yaml(raw)
        except YamlProblem as error:
            raise _unrecognized(raw, kind_wanted, str(error)) from error
    if kind_wanted and not isinstance(body, dict):
        problem = f"json: cannot unmarshal {_JSON_NAMES.get(type(body), 'null')} into Go value of type {_TYPE_META}"
        raise _unrecognized(
            raw, kind_wanted, f"couldn't get version/kind; json parse error: {problem}"
        )
    return body


_JSON_NAMES = {list: "array", str: "string", int: "number", float: "number", bool: "bool"}
_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


def _unrecognized(raw: bytes, kind: str, why: str) -> ApiError:
    """Return the refusal of a body that cannot be read; it quotes the beginning of the body."""
    if not kind:
        return bad_request(f"error decoding patch: {why.rpartition('json parse error: ')[2]}")
    shown = (
        "<empty>"
        if not raw
        else raw[:6].decode(errors="replace")
        if raw.startswith(b"{")
        else raw[:6].hex()
    )
    more = " ..." if len(raw) > 6 else ""
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {why} ({shown}{more})"
    )


def _json_problem(raw: bytes) -> str:
    """Return why a text is no JSON; in Go's wording if its first character is wrong or it ends
    early."""
    text = raw.decode(errors="replace").lstrip()
    if text and text[0] not in '{["-0123456789tfn':
        return f"invalid character '{text[0]}' looking for beginning of value"
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if not text or error.pos >= len(raw.decode(errors="replace").rstrip()):
            return "unexpected end of JSON input"
        return str(error)
    return ""
