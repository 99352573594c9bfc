# SPDX-License-Identifier: Apache-2.0
"""The control socket of a running lab: each request and each answer is one line of JSON.

Requests are ``{"op": OP}`` with ``status``, ``active``, ``heal-all``, or ``heal`` with ``id``, or
``inject`` with ``fault`` and ``parameters``. Answers are ``{"ok": true, "result": ...}`` or
``{"ok": false, "error": "one line"}``. Only the user that started the lab can open the socket (mode
0600 in a directory of mode 0700).
"""

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from hybridlab.cluster.exits import ENVIRONMENT, USAGE, Stop

Operation = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""Answers one request. A ValueError is the caller's mistake; its text becomes the answer."""


class ControlServer:
    """Serves the control socket of a lab."""

    def __init__(self, path: Path, handlers: Mapping[str, Operation]) -> None:
        self._path = path
        self._handlers = handlers
        self._server: asyncio.AbstractServer | None = None

    async def start(self) -> None:
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, self._path)
        finally:
            os.umask(mask)

    async def stop(self) -> None:
        """Stop listening; the directory's owner removes the socket file."""
        if self._server:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
                await writer.drain()
        except ConnectionError:
            pass  # the client has left; the next status shows whether its request was carried out
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            operation = request.get("op")
            if operation not in self._handlers:
                raise ValueError(
                    f"unknown operation {operation!r}; "
                    f"the operations are {', '.join(self._handlers)}"
                )
            return {"ok": True, "result": await self._handlers[operation](request)}
        except ValueError as error:
            return {"ok": False, "error": str(error)}
        except (
            Exception
        ) as error:  # a fault that could not be injected must reach its caller, not only a log
            return {"ok": False, "error": f"{type(error).__name__}: {error}"}


def ask(path: Path, request: Mapping[str, Any], *, patience: float = 30.0) -> Any:
    """Send a request to a running lab; return the result, or raise Stop with the lab's message."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(patience)
        try:
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as stream:
                line = stream.readline()
        except TimeoutError as error:
            raise Stop(
                ENVIRONMENT, f"the lab at {path} did not answer within {patience:.0f} s"
            ) from error
        except OSError as error:
            raise Stop(ENVIRONMENT, f"no lab answers at {path}: {error.strerror}") from error
    if not line:
        raise Stop(ENVIRONMENT, f"the lab at {path} closed the connection without an answer")
    answer = json.loads(line)
    if not answer["ok"]:
        raise Stop(USAGE, answer["error"])
    return answer["result"]
