# SPDX-License-Identifier: Apache-2.0
"""Answers: JSON bodies, Status objects, and the form of a body that a client accepts."""

import uuid
from collections.abc import Iterable
from typing import Any

import orjson
from multidict import CIMultiDict

from hybridlab.api.contract import ApiError, Obj
from hybridlab.api.errors import PlainError, status_of
from hybridlab.api.http.aio import web

STREAMING = web.RequestKey("streaming", bool)
"""The key that marks a request whose answer has begun: an error can then only cut the answer off.
"""
YAML = "application/yaml"
BODY_LIMIT = 3 * 1024 * 1024
"""The maximum number of bytes of a request's body, as on the real server."""


def json_reply(
    body: Any, code: int = 200, *, warnings: Iterable[str] = (), content_type: str = ""
) -> web.Response:
    """Answer with a JSON body."""
    headers: CIMultiDict[str] = CIMultiDict()
    headers["Audit-Id"] = str(uuid.uuid4())
    headers["Cache-Control"] = "no-cache, private"
    headers["Content-Type"] = content_type or "application/json"
    for warning in warnings:
        text = warning.replace("\\", "\\\\").replace('"', '\\"')
        headers.add("Warning", f'299 - "{text}"')
    return web.Response(body=orjson.dumps(body), status=code, headers=headers)


def error_reply(error: ApiError) -> web.Response:
    """Answer with the Status of an error; answer plain-text errors with a line of text."""
    if isinstance(error, PlainError):
        return text_reply(error.message, error.code)
    reply = json_reply(status_of(error), error.code)
    seconds = error.details.get("retryAfterSeconds") if error.code in {429, 503} else None
    if seconds:
        reply.headers["Retry-After"] = str(seconds)
    if error.code == 401:
        reply.headers["WWW-Authenticate"] = 'Bearer realm="hybridlab"'
    return reply


def text_reply(text: str, code: int = 200) -> web.Response:
    """Answer with plain text."""
    return web.Response(text=text, status=code, content_type="text/plain")


def wants(accept: str, form: str) -> bool:
    """Return whether the first accepted JSON type requests ``as=FORM`` of meta.k8s.io (Table,
    PartialObjectMetadata)."""
    for part in accept.split(","):
        parameters = {item.strip() for item in part.split(";")}
        if "application/json" not in parameters:
            continue
        return f"as={form}" in parameters and (
            "v=v1" in parameters or not any(p.startswith("v=") for p in parameters)
        )
    return False


def accepts_json(accept: str) -> bool:
    """Return whether a client accepts JSON, or YAML, into which answers are translated at the
    end."""
    return not accept or any(
        kind in accept for kind in ("application/json", "*/*", "application/*", YAML)
    )


def prefers_yaml(accept: str) -> bool:
    """Return whether YAML is the first of the client's accepted forms that this server has."""
    if YAML not in accept:
        return False
    kinds = (part.partition(";")[0].strip() for part in accept.split(","))
    return (
        next(
            (kind for kind in kinds if kind in {YAML, "application/json", "*/*", "application/*"}),
            "",
        )
        == YAML
    )


def in_yaml(reply: web.Response) -> web.Response:
    """Translate an answer in JSON into YAML."""
    from hybridlab.api.http.yaml_bodies import to_yaml  # takes 30 ms, and YAML is rare

    if reply.content_type != "application/json" or not isinstance(reply.body, bytes):
        return reply
    headers = reply.headers.copy()
    headers["Content-Type"] = YAML
    headers.pop("Content-Length", None)
    return web.Response(
        body=to_yaml(orjson.loads(reply.body)), status=reply.status, headers=headers
    )


def deleted_status(resource_plural: str, group: str, meta: Obj) -> Obj:
    """Return the Status that answers a completed delete."""
    details: Obj = {"name": meta["name"], "kind": resource_plural, "uid": meta["uid"]}
    if group:
        details["group"] = group
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }
