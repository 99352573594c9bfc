# SPDX-License-Identifier: Apache-2.0
"""Holds a conversation with a server, and returns the answers in a form in which two servers can
be compared."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import yaml

from tests.contract.apiserver.conversation import Conversation, Step

AGENT = "conversation/1.0"
ADMIN = "admin-token"
_PATIENCE = 20.0
"""The seconds for which a step with ``until`` is repeated."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_CLUSTER_ADDRESS = re.compile(r"\b10\.(9[6-9]|1[01]\d)\.\d+\.\d+\b")
_SUFFIX = re.compile(r"(?<=[a-z0-9]-)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_HASH = re.compile(r"(?<=[-=])[bcdfghjklmnpqrstvwxz2456789]{8,10}\b")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----\n?", re.S)
_PATCHED = re.compile(
    r'(?<=^ "" is invalid: patch: Invalid value: )"\{.*\}"(?=: )|(?<=^Invalid value: )"\{.*\}"(?=: )',
    re.S,
)
"""Matches a patched object in a message, whose order of fields is random."""
_RECORD = re.compile(r"in record \(\d+\)")
_AGE = re.compile(r"^\d+s$")
_TOKEN_VOLUME = "kube-api-access-"
_UNSHARED = frozenset({"managedFields", "storageVersionHash"})
"""Bookkeeping fields that reveal nothing about behaviour; a step that shows managedFields keeps
them."""


@dataclass(frozen=True)
class Answer:
    """The answer of a server to one step."""

    step: str
    code: int
    content_type: str = ""
    warnings: tuple[str, ...] = ()
    body: Any = None

    def shared(self) -> dict[str, Any]:
        """Return the answer in the form of the golden files."""
        shared: dict[str, Any] = {"step": self.step, "code": self.code, "type": self.content_type}
        if self.warnings:
            shared["warnings"] = list(self.warnings)
        return {**shared, "body": self.body}


@dataclass
class Server:
    """The address and the certificate of a server."""

    url: str
    certificate: str
    """The certificate of its CA, in PEM."""
    controllers: bool = True
    """Its controllers run; without controllers, the holder of a conversation fills its
    namespace."""
    tls: ssl.SSLContext = field(init=False)

    def __post_init__(self) -> None:
        self.tls = ssl.create_default_context(cadata=self.certificate)

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Send one request and read the whole answer."""
        split = urlsplit(self.url)
        connection = http.client.HTTPSConnection(
            split.hostname or "", split.port, context=self.tls, timeout=30
        )
        try:
            connection.request(method, path, body, {"User-Agent": AGENT, **(headers or {})})
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()
        finally:
            connection.close()


class Holder:
    """Holds conversations with one server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def hold(self, conversation: Conversation) -> list[Answer]:
        """Return the answers to the steps that count; the conversation's namespace is deleted in the end."""
        names = {"ns": f"cv-{conversation.name}", "admin": ADMIN, "stranger": "wrong"}
        space = f"/api/v1/namespaces/{names['ns']}"
        self._furnish(names["ns"])
        try:
            return [answer for step in conversation.steps for answer in self._take(step, names)]
        finally:
            self._plain("DELETE", space)

    def _plain(self, method: str, path: str, body: Any = None) -> int:
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"}
        return self._server.send(
            method, path, json.dumps(body).encode() if body else None, headers
        )[0]

    def _furnish(self, namespace: str) -> None:
        """Make the conversation's namespace with the objects that every namespace has."""
        self._plain("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        space = f"/api/v1/namespaces/{namespace}"
        furniture = (
            ("serviceaccounts", {"metadata": {"name": "default"}}),
            ("configmaps", {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "none"}}),
        )
        for kind, body in furniture:
            deadline = time.monotonic() + (_PATIENCE if self._server.controllers else 0)
            while self._plain("GET", f"{space}/{kind}/{body['metadata']['name']}") != 200:
                if time.monotonic() >= deadline:
                    self._plain("POST", f"{space}/{kind}", body)
                time.sleep(0.05)

    def _take(self, step: Step, names: dict[str, str]) -> Iterator[Answer]:
        deadline = time.monotonic() + _PATIENCE
        while True:
            code, headers, raw = self._ask(step, names)
            body = _body(raw, headers.get_content_type(), watched=bool(step.watch))
            if step.until is None or time.monotonic() > deadline:
                break
            if code == step.until.code and (
                not step.until.at or _at(body, step.until.at) == step.until.has
            ):
                break
            time.sleep(0.05)
        for name, path in step.keep.items():
            names[name] = str(_at(body, path))
        if not step.silent:
            warnings = tuple(sorted(headers.get_all("Warning") or ()))
            sharing = Sharing(names["ns"], any("managedFields" in path for path in step.show))
            if step.show and code < 400:
                shown = {
                    path: sharing.of(_at(body, path), path.rpartition(".")[2]) for path in step.show
                }
            else:
                shown = sharing.of(body)
            yield Answer(step.name, code, headers.get("Content-Type", ""), warnings, shown)

    def _ask(
        self, step: Step, names: Mapping[str, str]
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        headers = {name: _filled(value, names) for name, value in step.headers.items()}
        token = names.get(step.token, "")
        if token:
            headers["Authorization"] = f"Bearer {token}"
        body = step.raw.encode() if step.raw is not None else None
        if step.body is not None:
            body = _filled(json.dumps(step.body), names).encode()
        if body is not None and step.type:
            headers["Content-Type"] = step.type
        path = quote(_filled(step.path, names), safe="/?&=%:,-._~!*'()@+$")
        if not step.watch:
            return self._server.send(step.method, path, body, headers)
        path += ("&" if "?" in path else "?") + f"watch=1&timeoutSeconds={int(step.watch)}"
        acting = threading.Timer(
            0.3, lambda: [list(self._take(inner, dict(names))) for inner in step.meanwhile]
        )
        acting.start()
        try:
            return self._server.send(step.method, path, body, headers)
        finally:
            acting.join()


def _filled(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace("{" + name + "}", value)
    return text


def _body(raw: bytes, content_type: str, *, watched: bool) -> Any:
    text = raw.decode(errors="replace")
    if content_type == "application/yaml":
        return yaml.safe_load(text)
    try:
        if watched:
            return [json.loads(line) for line in text.splitlines()]
        return json.loads(text)
    except ValueError:
        return text


def _at(value: Any, path: str) -> Any:
    """Return the value at a path: ``items[].metadata.name``, ``spec.ports[0]``, ``data[ca.crt]``,
    ``groups[name=x]``."""
    for match in re.finditer(r"\[([^\]]*)\]|[^.\[\]]+", path):
        step, inner = match[0], match[1]
        if inner == "":
            rest = path[match.end() :].lstrip(".")
            return [_at(item, rest) if rest else item for item in value or ()]
        if inner is not None and "=" in inner:
            key, _, wanted = inner.partition("=")
            value = next((item for item in value or () if _at(item, key) == wanted), None)
        elif isinstance(value, list):
            place = inner or step
            value = value[int(place)] if place.isdigit() and int(place) < len(value) else None
        else:
            value = value.get(inner or step) if isinstance(value, dict) else None
    return value


class Sharing:
    """Replaces everything that differs between two servers, or two runs, by placeholders."""

    def __init__(self, namespace: str, keep_managers: bool = False) -> None:
        self._namespace = namespace
        self._dropped = _UNSHARED - {"managedFields"} if keep_managers else _UNSHARED

    def of(self, value: Any, key: str = "") -> Any:
        """Return JSON data with placeholders."""
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return [self.of(item, key) for item in value]
        if isinstance(value, str):
            return self._text(value, key)
        return "<node port>" if key == "nodePort" and isinstance(value, int) else value

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        shared = {
            name: self.of(item, name) for name, item in value.items() if name not in self._dropped
        }
        for name in ("volumes", "volumeMounts"):
            if isinstance(shared.get(name), list):
                shared[name] = [
                    item
                    for item in shared[name]
                    if not item.get("name", "").startswith(_TOKEN_VOLUME)
                ]
                if not shared[name]:
                    del shared[name]
        if {"name", "type", "format", "priority"} <= shared.keys():
            shared.pop("description", None)  # of a column
        if "causes" in shared:  # a real server lists them in any order, and some of them twice
            once = {json.dumps(cause, sort_keys=True): cause for cause in shared["causes"]}
            shared["causes"] = [once[text] for text in sorted(once)]
        return shared

    def _text(self, text: str, key: str) -> str:
        if key.startswith("cells") and _AGE.match(text):
            return "<age>"
        if key in {"resourceVersion", "uid", "continue", "token", "pod-template-hash"}:
            return f"<{key}>" if text else text
        text = _RECORD.sub("in record (<resourceVersion>)", _PATCHED.sub("<patched object>", text))
        text = _CERTIFICATE.sub("<certificate>", text)
        text = text.replace(self._namespace, "<namespace>")
        text = _CLUSTER_ADDRESS.sub(
            "<cluster address>", _TIME.sub("<time>", _UUID.sub("<uid>", text))
        )
        return _HASH.sub("<hash>", _SUFFIX.sub("<suffix>", text))
