"""What a request brings along: its options and its body, in the forms that are taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from hybridlab.api.errors import bad_request, unsupported_media_type
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


def write_options(request: web.BaseRequest) -> WriteOptions:
    """Return the options of a write; ApiError 400 for what they cannot be."""
    query = request.query
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in {"Ignore", "Warn", "Strict"}:
        raise bad_request(
            f'fieldValidation: Unsupported value: "{validation}": supported values: "Ignore", "Warn", "Strict"'
        )
    dry_run = query.get("dryRun", "")
    if dry_run not in {"", "All"}:
        raise bad_request(f'dryRun: Unsupported value: "{dry_run}": supported values: "All"')
    manager = query.get("fieldManager", "")
    if not manager and request.content_type not in APPLY:
        manager = request.headers.get("User-Agent", "").partition("/")[0][:128]
    return WriteOptions(
        dry_run=dry_run == "All",
        field_manager=manager,
        field_validation=validation,  # type: ignore[arg-type]  # one of the three, checked above
        force=query.get("force") == "true",
    )


async def delete_options(request: web.BaseRequest) -> DeleteOptions:
    """Return the options of a delete, from its body or its query; ApiError 400 for what they cannot be."""
    query = request.query
    raw = await request.read()
    body: Any = {}
    if raw.strip():
        body = protobuf.decode(raw) if request.content_type == protobuf.CONTENT_TYPE else _parse(raw)
    if not isinstance(body, dict):
        raise bad_request("DeleteOptions must be an object")
    grace = body.get("gracePeriodSeconds")
    if grace is None and query.get("gracePeriodSeconds"):
        try:
            grace = int(query["gracePeriodSeconds"])
        except ValueError:
            raise bad_request("gracePeriodSeconds: must be a number") from None
    policy = body.get("propagationPolicy") or query.get("propagationPolicy") or "Background"
    if body.get("orphanDependents") is True or query.get("orphanDependents") == "true":
        policy = "Orphan"
    if policy not in {"Background", "Foreground", "Orphan"}:
        raise bad_request(
            f'propagationPolicy: Unsupported value: "{policy}": supported values: "Background", "Foreground", "Orphan"'
        )
    preconditions = body.get("preconditions") or {}
    return DeleteOptions(
        grace_period_seconds=grace,
        propagation=policy,  # type: ignore[arg-type]  # one of the three, checked above
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        dry_run="All" in (body.get("dryRun") or ()) or query.get("dryRun") == "All",
    )


async def body_of(request: web.BaseRequest, accepted: frozenset[str]) -> Any:
    """Return a request's body; ApiError 415 when its type is none of ``accepted``, 400 when it cannot be read."""
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip()
    if kind == protobuf.CONTENT_TYPE and "application/json" in accepted:
        return protobuf.decode(await request.read())
    if kind in APPLY and kind in accepted:
        return _parse(await request.read(), yaml=True)
    if kind == YAML and "application/json" in accepted:
        return _parse(await request.read(), yaml=True)
    if kind not in accepted and kind != "*/*":
        raise unsupported_media_type(kind, sorted(item for item in accepted if item))
    return _parse(await request.read())


def _parse(raw: bytes, *, yaml: bool = False) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if yaml:
            from hybridlab.api.http.yaml_bodies import from_yaml  # 30 ms, and most labs never see YAML

            return from_yaml(raw)
        raise bad_request(f"the request body is not JSON ({error})") from error
