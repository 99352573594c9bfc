# SPDX-License-Identifier: Apache-2.0
"""The WebSocket under an exec: connecting with a deadline, the channels of v5/v4.channel.k8s.io,
the exit status.

This module uses websocket-client directly, because the official client's ``stream()`` is not
thread-safe, has no connect time-out and loses exit codes.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from conformance.errors import ProbeBroken
from conformance.kube import answers, proxy
from conformance.kube.client import Kube
from conformance.kube.refused import NoApiServer

STDIN = 0
STDOUT = 1
STDERR = 2
ERROR = 3
CLOSE = 255
"""The first byte of a message that closes a channel: ``255, n`` closes channel n (only in v5)."""
V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"
FRAME = 32768
ANSWER = 64 << 20
"""The maximum size of a command's whole output, in bytes; for a stream, of one message."""
COULD_NOT_START = "the command did not start"
"""The beginning of the reason if a command cannot start, for example because the container lacks
the program. Another attempt would fail, too."""
NO_SUCH_PROGRAM = (
    "executable file not found", "cannot find the file specified", "cannot find the path specified",
    "no such file or directory", "exec format error", "not a valid win32 application",
    "not supported for job containers",
)  # fmt: skip
"""Texts of container runtimes (runc, hcsshim) if a command cannot start, in lower case.

Every other error may be temporary. API servers from 1.30 on accept the WebSocket before they dial
the kubelet. The error channel therefore also reports a kubelet that does not answer, a proxy that
is replaced and a stream that is cut in its middle (StreamTranslatorHandler of kube-apiserver).
"""
NOT_RUNNING = "the container is not running"
"""The beginning of the reason if the container has ended. The pod's status soon shows why, and the
container may be started again."""
BROKE_ON_ITS_WAY = "the exec broke between the API server and the command"
"""The beginning of the reason if the command itself is not the cause: the kubelet, the container
runtime or a proxy failed."""


class ExecBroken(ProbeBroken):
    """An exec without an exit status: the command's result is unknown.

    ``retryable``: another attempt may help (transport, overload); False if the command cannot
    start. ``asked``: the API server had accepted the command, which may therefore have run.
    ``unauthorized``: the API server did not accept the credentials.
    """

    def __init__(
        self,
        message: str,
        *,
        transport: str,
        stdout: bytes = b"",
        stderr: bytes = b"",
        retryable: bool = True,
        asked: bool = False,
        unauthorized: bool = False,
    ) -> None:
        super().__init__(message, transport=transport)
        self.stdout = stdout
        self.stderr = stderr
        self.retryable = retryable
        self.asked = asked
        self.unauthorized = unauthorized


def connect(
    kube: Kube,
    namespace: str,
    pod: str,
    container: str,
    argv: Sequence[str],
    *,
    stdin: bool,
    within: float,
) -> Any:
    """Return an open ``websocket.WebSocket`` for the command. Raise ExecBroken, ApiGone.

    The request is repeated once with new credentials if the present ones have expired.
    """
    query = [("command", word) for word in argv]
    query += [("container", container), ("stdout", "true"), ("stderr", "true")]
    query += [("stdin", "true")] if stdin else []
    path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/exec?{urlencode(query)}"
    name = f"exec in {namespace}/{pod}/{container}"
    headers = kube.headers()
    try:
        return _connect(kube, name, path, headers, within)
    except ExecBroken as broken:
        if not (broken.unauthorized and kube.renew_credentials(headers.get("Authorization", ""))):
            raise
    return _connect(kube, name, path, kube.headers(), within)


def _connect(kube: Kube, name: str, path: str, headers: Mapping[str, str], within: float) -> Any:
    import websocket  # imported only to run something in a pod

    kube.reach.check(name)
    asked = time.monotonic()
    configuration = kube.access.configuration
    options: dict[str, Any] = {"timeout": within, "subprotocols": [V5, V4], "suppress_origin": True}
    options["header"] = [f"{key}: {value}" for key, value in headers.items() if key != "Accept"]
    channel: Any = websocket.WebSocket(skip_utf8_validation=True, enable_multithread=True)
    watchdog = threading.Timer(within, _cut, [channel])  # websocket's own time-out is for each byte
    watchdog.daemon = True
    watchdog.start()
    try:
        channel.connect(
            f"{configuration.host.replace('http', 'ws', 1)}{path}",
            redirect_limit=0,
            socket=kube.connection(within),
            **options,
        )
    except websocket.WebSocketBadStatusException as error:
        body = (
            error.resp_body
            if isinstance(error.resp_body, bytes)
            else str(error.resp_body or "").encode()
        )
        raise _refused(name, error.status_code, error.resp_headers or {}, body) from error
    except Exception as error:  # packages for SOCKS proxies raise errors of any type
        channel.shutdown()
        if (handshake := channel.handshake_response) and 300 <= handshake.status < 400:
            raise _refused(name, handshake.status, handshake.headers, b"") from error
        why = proxy.explain(configuration, error)
        if isinstance(error, OSError):
            kube.reach.silent(asked, why)
        raise ExecBroken(
            f"{name}: no connection to the API server within {within:.1f} s: {why}", transport=why
        ) from error
    finally:
        watchdog.cancel()
    _count(channel)
    return channel


def _refused(name: str, status: int, headers: Mapping[str, str], body: bytes) -> ExecBroken:
    """Return the error for an exec that was answered by an HTTP status in place of a WebSocket. The
    error contains no secret."""
    refusal = answers.refusal(status, "", headers, body, name) or NoApiServer(
        f"{status}, not a WebSocket", name
    )
    reported = f"{refusal.code} {refusal.reason} {refusal.message}".replace("  ", " ")
    return ExecBroken(
        f"{name} was refused: {refusal.message if isinstance(refusal, NoApiServer) else reported}",
        transport=str(refusal),
        retryable=refusal.passing,
        unauthorized=refusal.code == 401,
    )


def _cut(channel: Any) -> None:
    """End the read or write that a channel is waiting for."""
    with contextlib.suppress(Exception):  # the channel may just have ended
        channel.sock.shutdown(socket.SHUT_RDWR)


def _count(channel: Any) -> None:
    """Keep the number of bytes that a channel has received in its field ``received``. Raise TooMuch
    if it exceeds ANSWER.

    A reader of many messages sets ``received`` back to 0. The channel's field ``until`` is a moment
    of ``time.monotonic`` after which receiving times out.
    """
    receive = channel.frame_buffer.recv
    channel.received = 0
    channel.until = float("inf")

    def counted(size: int) -> bytes:
        if channel.until != float("inf"):
            channel.settimeout(max(0.001, channel.until - time.monotonic()))
        data: bytes = receive(size)
        channel.received += len(data)
        if channel.received > ANSWER:
            raise answers.TooMuch(f"the command's output exceeds {ANSWER >> 20} MB")
        return data

    channel.frame_buffer.recv = counted


def send(channel: Any, data: bytes) -> None:
    """Send bytes to the command's standard input."""
    for start in range(0, len(data), FRAME):
        channel.send_binary(bytes([STDIN]) + data[start : start + FRAME])


def close_stdin(channel: Any) -> None:
    """Signal the end of standard input. Only protocol v5 has a signal for it; a v4 server never
    closes the command's standard input."""
    if channel.subprotocol == V5:
        channel.send_binary(bytes([CLOSE, STDIN]))


def exit_status(error_channel: bytes) -> tuple[int | None, str]:
    """Return (exit code, "") from the error channel; (None, reason) if it has no exit code.

    The client sometimes loses the status (kubernetes-client/python#2156); that does not count as
    success.
    """
    if not error_channel.strip():
        return None, "the exit status never arrived"
    try:
        status = json.loads(error_channel)
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, dict):
        return None, f"the exit status is garbled: {error_channel[:200]!r}"
    if status.get("status") == "Success":
        return 0, ""
    for cause in (status.get("details") or {}).get("causes") or []:
        if cause.get("reason") == "ExitCode":
            try:
                return int(cause.get("message")), ""
            except (TypeError, ValueError):
                return None, f"the exit code is not a number: {cause.get('message')!r}"
    message = str(status.get("message") or status)
    return None, f"{_what_failed(message.lower())}: {message}"


def _what_failed(message: str) -> str:
    """Return the beginning of the reason for a message of the error channel. The message is in
    lower case."""
    if "container not found" in message:
        return NOT_RUNNING
    return COULD_NOT_START if any(text in message for text in NO_SUCH_PROGRAM) else BROKE_ON_ITS_WAY
