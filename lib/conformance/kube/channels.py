"""The WebSocket under an exec: connecting with a deadline, the channels of v5/v4.channel.k8s.io, the exit status.

Own code on websocket-client because the official client's ``stream()`` is not thread-safe, has no connect time-out and
loses exit codes.
"""

import json
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from conformance.errors import ProbeBroken
from conformance.kube.client import Kube
from conformance.kube.refused import ApiRefused, describe

STDIN, STDOUT, STDERR, ERROR = 0, 1, 2, 3
CLOSE = 255
"""v5 only: ``255, n`` closes channel n."""
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
FRAME = 32768
COULD_NOT_START = "the command did not start"
"""How a reason begins that trying again does not cure: the container has no such program."""
NO_SUCH_PROGRAM = (
    "executable file not found", "cannot find the file specified", "cannot find the path specified",
    "no such file or directory", "exec format error", "not a valid win32 application",
    "not supported for job containers",
)  # fmt: skip
"""Texts of container runtimes (runc, hcsshim) that say so, in lower case.

Every other error may pass.  API servers from 1.30 on accept the WebSocket before they dial the kubelet, so that a
kubelet that does not answer, a proxy that is replaced and a stream that is cut in its middle are told on the error
channel as well (StreamTranslatorHandler of kube-apiserver).
"""
NOT_RUNNING = "the container is not running"
"""How a reason begins that the pod's status explains before long: its container ended, and may be started again."""
BROKE_ON_ITS_WAY = "the exec broke between the API server and the command"
"""How a reason begins that says nothing about the command: kubelet, container runtime or a proxy failed."""


class ExecBroken(ProbeBroken):
    """An exec that gave no exit status: nothing is known about what the command would have said.

    ``retryable``: trying again may help (transport, overload); not when the command cannot start at all.
    ``asked``: the API server had accepted the command, which may therefore have run.  ``unauthorized``: it did not take
    the credentials.
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
        self.stdout, self.stderr, self.retryable, self.asked = stdout, stderr, retryable, asked
        self.unauthorized = unauthorized


def connect(
    kube: Kube, namespace: str, pod: str, container: str, argv: Sequence[str], *, stdin: bool, within: float
) -> Any:
    """An open ``websocket.WebSocket`` on which the command has been asked for.  Raises ExecBroken, ApiGone.

    Asks once more with new credentials where those in use have run out.
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
    import websocket  # only when something is run in a pod

    kube.reach.check(name)
    asked, configuration = time.monotonic(), kube.access.configuration
    options: dict[str, Any] = {"timeout": within, "subprotocols": [V5, V4], "suppress_origin": True}
    options["header"] = [f"{key}: {value}" for key, value in headers.items() if key != "Accept"]
    options |= _proxy(configuration)
    tls = _tls(configuration) if configuration.host.startswith("https:") else {}
    channel: Any = websocket.WebSocket(sslopt=tls, skip_utf8_validation=True, enable_multithread=True)
    try:
        channel.connect(f"{configuration.host.replace('http', 'ws', 1)}{path}", **options)
    except websocket.WebSocketBadStatusException as error:
        body = error.resp_body if isinstance(error.resp_body, bytes) else str(error.resp_body or "").encode()
        refusal = ApiRefused.from_response(error.status_code, "", body, name)
        raise ExecBroken(
            f"{name} was refused: {refusal.code} {refusal.reason} {refusal.message}".replace("  ", " "),
            transport=str(refusal),
            retryable=refusal.code == 429 or refusal.code >= 500,
            unauthorized=refusal.code == 401,
        ) from error
    except (websocket.WebSocketException, OSError, ValueError) as error:
        channel.shutdown()
        if isinstance(error, OSError):
            kube.reach.silent(asked, describe(error))
        raise ExecBroken(
            f"{name}: no connection to the API server within {within:.1f} s: {describe(error)}",
            transport=describe(error),
        ) from error
    return channel


def _tls(configuration: Any) -> dict[str, Any]:
    """websocket-client's TLS options from the official client's configuration."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif configuration.assert_hostname is False:
        context.check_hostname = False
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    options: dict[str, Any] = {"context": context}
    if configuration.tls_server_name:
        options["server_hostname"] = configuration.tls_server_name
    return options


def _proxy(configuration: Any) -> dict[str, Any]:
    """The proxy that the official client would use, or none: websocket-client must not choose one by itself."""
    from kubernetes.client.rest import should_bypass_proxies  # already imported by the client

    if not configuration.proxy or should_bypass_proxies(configuration.host, configuration.no_proxy or ""):
        return {"http_no_proxy": ["*"]}
    parts = urlsplit(configuration.proxy)
    options: dict[str, Any] = {"http_proxy_host": parts.hostname, "http_proxy_port": parts.port or 80}
    options["proxy_type"] = parts.scheme or "http"
    if parts.username:
        options["http_proxy_auth"] = (parts.username, parts.password or "")
    return options


def send(channel: Any, data: bytes) -> None:
    """Bytes for the command's standard input."""
    for start in range(0, len(data), FRAME):
        channel.send_binary(bytes([STDIN]) + data[start : start + FRAME])


def close_stdin(channel: Any) -> None:
    """End of standard input; only v5 can say that, a v4 server never closes it."""
    if channel.subprotocol == V5:
        channel.send_binary(bytes([CLOSE, STDIN]))


def exit_status(error_channel: bytes) -> tuple[int | None, str]:
    """(exit code, "") from what the error channel said; (None, why) when it gave none.

    Issue kubernetes-client/python#2156: the status is lost now and then, and is then no success.
    """
    if not error_channel.strip():
        return None, "the exit status never arrived"
    try:
        status = json.loads(error_channel)
    except ValueError:
        return None, f"the exit status is garbled: {error_channel[:200]!r}"
    if status.get("status") == "Success":
        return 0, ""
    for cause in (status.get("details") or {}).get("causes") or []:
        if cause.get("reason") == "ExitCode":
            try:
                return int(cause.get("message")), ""
            except (TypeError, ValueError):
                return None, f"the exit code is no number: {cause.get('message')!r}"
    message = str(status.get("message") or status)
    return None, f"{_what_failed(message.lower())}: {message}"


def _what_failed(message: str) -> str:
    """How the reason begins of an error channel's message (in lower case)."""
    if "container not found" in message:
        return NOT_RUNNING
    return COULD_NOT_START if any(text in message for text in NO_SUCH_PROGRAM) else BROKE_ON_ITS_WAY
