# SPDX-License-Identifier: Apache-2.0
"""The answers on paths that are no resources: health, version, discovery, OpenAPI."""

from typing import Final

from hybridlab.api.contract import Obj
from hybridlab.api.errors import NoSuchPage, no_such_resource, not_acceptable
from hybridlab.api.http import openapi_protobuf
from hybridlab.api.http.aio import web
from hybridlab.api.http.discovery import AGGREGATED, Discovery
from hybridlab.api.http.openapi import OpenApi
from hybridlab.api.http.replies import accepts_json, json_reply, text_reply
from hybridlab.api.resources import Catalogue

HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})
PUBLIC: Final = HEALTH | {"/version", "/version/"}
"""Paths that are answered even without a token."""


class Documents:
    """Answers requests about the server itself."""

    def __init__(self, catalogue: Catalogue, address: str, kubernetes_version: str) -> None:
        self._kubernetes_version = kubernetes_version
        self._discovery = Discovery(catalogue, address)
        self._openapi = OpenApi(catalogue, kubernetes_version)

    def answer(self, request: web.BaseRequest, path: str) -> web.Response:
        """Answer a request; raise ApiError 404 if there is nothing at its path."""
        if request.method not in {"GET", "HEAD"}:
            raise no_such_resource()
        if path in HEALTH:
            return text_reply(
                "[+]ping ok\n[+]store ok\nhealthz check passed\n"
                if "verbose" in request.query
                else "ok"
            )
        stripped = path.rstrip("/")
        accept = request.headers.get("Accept", "")
        if stripped == "/version":
            return json_reply(self._version())
        if stripped == "":
            return json_reply(
                {
                    "paths": [
                        "/api",
                        "/api/v1",
                        "/apis",
                        "/healthz",
                        "/livez",
                        "/openapi/v2",
                        "/openapi/v3",
                        "/readyz",
                        "/version",
                    ]
                }
            )
        if stripped == "/openapi/v2" and openapi_protobuf.ACCEPTED in accept:
            body = openapi_protobuf.encoded(self._openapi.swagger())
            return web.Response(body=body, headers={"Content-Type": openapi_protobuf.CONTENT_TYPE})
        if stripped.startswith("/openapi/"):
            if not accepts_json(accept):
                raise not_acceptable()
            return json_reply(self._openapi_document(stripped))
        found = self._discovery.answer(
            stripped, aggregated="as=APIGroupDiscoveryList" in accept and "v=v2;" in accept
        )
        if found is None:
            raise NoSuchPage
        document, aggregated = found
        return json_reply(document, content_type=AGGREGATED if aggregated else "")

    def _openapi_document(self, path: str) -> Obj:
        parts = path.strip("/").split("/")[1:]
        match parts:
            case ["v2"]:
                return self._openapi.swagger()
            case ["v3"]:
                return self._openapi.index()
            case ["v3", "api", version]:
                return self._openapi.group_document("", version)
            case ["v3", "apis", group, version]:
                return self._openapi.group_document(group, version)
        raise no_such_resource()

    def _version(self) -> Obj:
        version = self._kubernetes_version
        major, minor = version.lstrip("v").split(".")[:2]
        return {
            "major": major,
            "minor": minor,
            "gitVersion": version,
            "gitCommit": "0" * 40,
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "none (hybridlab)",
            "compiler": "none",
            "platform": "linux/amd64",
        }
