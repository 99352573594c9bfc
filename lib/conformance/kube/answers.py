# SPDX-License-Identifier: Apache-2.0
"""Answers of an API server within limits of time and size, and how to distinguish them from a
gateway's.

A hostile or broken server costs the suite a limited time and a limited memory: :func:`bound` puts a
deadline on all data that a connection receives, :func:`body` counts bytes while it unpacks them.
"""

import contextlib
import functools
import http.client
import io
import json
import re
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from conformance import printing
from conformance.kube.refused import ApiRefused, NoApiServer

PAGE = 64 << 20
"""The largest unpacked answer, or event of a watch, that is accepted, in bytes."""
LINE = 16 << 20
"""The longest line of a command's output that is accepted, in bytes."""
CHUNK = 65536
NAMED = frozenset({"metadata", "status", "message", "reason", "note"})
"""Fields of an object, or of an event, that contain names and conditions."""
NAME = re.compile(r"[!-.0-~]{1,253}")
LONGEST = 200
"""The maximum length of a name that breaks Kubernetes' rules; the rest is cut off."""
TEXTS = ("annotations", "managedFields")
"""Fields of an object's metadata that may have several lines, or that are never printed."""
_calling = threading.local()


def deadline(seconds: float) -> None:
    """Limit the time for this thread's next request: its last byte must arrive within this number
    of seconds."""
    _calling.end = time.monotonic() + seconds


class TooMuch(OSError):
    """The data is larger than this process accepts."""


class Lines:
    """Cuts received bytes into lines, and searches each byte only once."""

    def __init__(self, what: str, at_most: int = LINE) -> None:
        """Set up an empty buffer. ``what`` names the lines in messages. ``at_most``: the longest
        line in bytes."""
        self.unfinished = bytearray()
        self._what = what
        self._at_most = at_most

    def add(self, data: bytes) -> list[bytes]:
        """Return the lines that are complete with ``data``, without their line endings.

        Raise TooMuch for a line that is too long.
        """
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self.unfinished) + lines[0]
            self.unfinished.clear()
        self.unfinished += rest
        if max(map(len, (*lines, self.unfinished))) > self._at_most:
            raise TooMuch(f"{self._what} exceeds {self._at_most >> 20} MB")
        return [line.rstrip(b"\r") for line in lines]


class _Received(io.RawIOBase):
    """The data of a connection. It can be read until the thread's deadline; after that, reading
    raises TimeoutError."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._silence = sock.gettimeout() or float("inf")
        self._end: float = getattr(_calling, "end", float("inf"))
        self._raw = sock.makefile("rb", buffering=0)

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        if (left := self._end - time.monotonic()) <= 0:
            raise TimeoutError("the answer was not complete in time")
        seconds = min(left, self._silence)
        self._sock.settimeout(seconds if seconds != float("inf") else None)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _response(sock: Any, *arguments: Any, **options: Any) -> http.client.HTTPResponse:
    return http.client.HTTPResponse(_Received(sock), *arguments, **options)  # type: ignore[arg-type]


def bound(manager: Any) -> None:
    """Make a urllib3 PoolManager follow no redirection, and make its connections obey
    :func:`deadline`."""
    manager.urlopen = functools.partial(manager.urlopen, redirect=False)
    bounded = {}
    for scheme, pool in manager.pool_classes_by_scheme.items():
        connection = type(
            pool.ConnectionCls.__name__,
            (pool.ConnectionCls,),
            {"response_class": staticmethod(_response)},
        )
        bounded[scheme] = type(pool.__name__, (pool,), {"ConnectionCls": connection})
    manager.pool_classes_by_scheme = bounded


def body(answer: Any, request: str) -> bytes:
    """Return the whole body, unpacked. Raise ApiRefused beyond PAGE bytes, and urllib3's errors."""
    received = bytearray()
    for chunk in answer.response.stream(CHUNK, decode_content=True):
        received += chunk
        if len(received) > PAGE:
            answer.response.close()
            raise ApiRefused(
                answer.status,
                "TooLarge",
                f"the answer exceeds {PAGE >> 20} MB (decompressed)",
                request,
            )
    answer.response.release_conn()
    return bytes(received)


def refusal(
    status: int, phrase: str, headers: Mapping[str, str], data: bytes, request: str
) -> ApiRefused | None:
    """Return the error for an answer that is no success: the API server's refusal, or NoApiServer
    if the answer did not come from an API server. Return None for a success."""
    named = {key.lower(): value for key, value in headers.items()}
    kind = named.get("content-type", "").partition(";")[0].strip().lower()
    refused: ApiRefused | None = None
    if 300 <= status < 400:
        refused = NoApiServer(
            f"{status} {phrase}".strip() + f", a redirect to {_target(named)}", request
        )
    elif kind == "text/html" or (status >= 400 and data.lstrip()[:1] == b"<"):
        refused = NoApiServer(
            f"{status} {phrase}".strip() + f", a web page: {_beginning(data)}", request
        )
    elif status >= 400:
        refused = ApiRefused.from_response(status, phrase, data, request)
    if refused:
        with contextlib.suppress(ValueError):  # the header may also be a date
            refused.retry_after = max(0.0, float(named.get("retry-after", 0)))
    return refused


def document(data: bytes, request: str, needed: str = "") -> Any:
    """Return the JSON object in a successful answer.

    Raise NoApiServer if the answer is no JSON object, or lacks the field ``needed``.
    """
    try:
        found = _with_names_in_lines(json.loads(data))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or needed not in (found if needed else ("",)):
        raise NoApiServer("not a JSON object: " + (_beginning(data) or "empty"), request)
    return found


def _with_names_in_lines(answer: Any) -> Any:
    """Return an answer in which each name, label and condition of its objects is one line.

    Messages contain these texts. No text of a node or a tenant may look like a line of the suite's
    own.
    """
    if not isinstance(answer, dict):
        return answer
    items = answer.get("items")
    objects = (answer, answer.get("object"), *(items if isinstance(items, list) else ()))
    for obj in (each for each in objects if isinstance(each, dict)):
        meta = obj.get("metadata")
        texts: dict[str, Any] = {}
        if isinstance(meta, dict):
            texts = {name: meta.pop(name) for name in TEXTS if name in meta}
        for field in NAMED.intersection(obj):
            obj[field] = printing.within(obj[field], printing.single)
        if isinstance(meta, dict):
            obj["metadata"] |= texts
            _make_part_of_paths(obj["metadata"])
    return answer


def _make_part_of_paths(meta: dict[str, Any]) -> None:
    """Change a name that no API server gives an object, so that it can be one part of a path.

    Files are named after nodes.
    """
    name = meta.get("name")
    if isinstance(name, str) and not NAME.fullmatch(name):
        visible = name.encode("ascii", "backslashreplace").decode()
        meta["name"] = visible.replace("/", "\\x2f")[:LONGEST]


def page(data: bytes, request: str) -> dict[str, Any]:
    """Return a page of a list. Raise NoApiServer if the answer is no JSON object, or if an item has
    no name."""
    found: dict[str, Any] = document(data, request, "items")
    items = found["items"] or ()
    for item in items if isinstance(items, list | tuple) else [str(items)]:
        demand_name(item, request)
    return found


def event(line: bytes, request: str) -> dict[str, Any]:
    """Return an event of a watch. Raise ApiRefused for an error event, NoApiServer for a line
    that is no event.
    """
    found: dict[str, Any] = document(line, request, "object")
    what = found["object"]
    kind = found.setdefault("type", "")
    if kind == "ERROR":
        status = what if isinstance(what, dict) else {}
        code = status.get("code")
        raise ApiRefused(
            code if isinstance(code, int) else 500,
            str(status.get("reason")),
            str(status.get("message")),
            request,
            status,
        )
    if kind != "BOOKMARK":
        demand_name(what, request)
    return found


def demand_name(obj: Any, request: str) -> None:
    """Raise NoApiServer if a value is no object with a name."""
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(meta, dict) or not meta.get("name"):
        said = _beginning(json.dumps(obj).encode())
        raise NoApiServer(f"an object without a name: {said}", request)


def _target(headers: Mapping[str, str]) -> str:
    """Return only the host that a redirection leads to: the whole address may hold secrets."""
    try:
        return f"host {urlsplit(headers.get('location', '')).hostname or 'itself'}, not followed"
    except ValueError:
        return "an unreadable address, not followed"


def _beginning(data: bytes) -> str:
    return repr(" ".join(data[:200].decode(errors="replace").split())[:80]) if data.strip() else ""
