# SPDX-License-Identifier: Apache-2.0
"""The suite's side of docs/probe-protocol.md: batches out, results in. Pure: it calls no API and
reads no clock.
"""

import base64
import functools
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conformance.errors import ProbeBroken
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import OS, Workload
from conformance.model.observation import Observation, Verdict
from conformance.pods.roles import MANIFESTS
from conformance.probe.clocks import unix

PROTOCOL = 2
MARK = b"@@PROBE@@ "
PATIENCE = 10
"""An attempt ends after this multiple of its give-up time, even if it makes progress."""
POWERSHELL = (
    "powershell.exe", "-NoLogo", "-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass", "-OutputFormat", "Text",
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A probe program and the way it is started in a pod."""

    name: str
    argv: tuple[str, ...]

    @functools.cached_property
    def sha256(self) -> str:
        """Return the SHA-256 of the file that the suite mounts. An agent that reports another hash
        is not this suite's program."""
        return hashlib.sha256((MANIFESTS / "probes" / self.name).read_bytes()).hexdigest()


AGENTS: dict[OS, Program] = {
    "linux": Program("agent.py", ("python3", "-I", "-S", "-u", "/probe/agent.py")),
    "windows": Program("matrix-agent.ps1", (*POWERSHELL, "-File", r"C:\probe\matrix-agent.ps1")),
}
STREAM_AGENTS: dict[OS, Program] = {
    "linux": Program("stream_agent.py", ("python3", "-I", "-S", "-u", "/probe/stream_agent.py")),
    "windows": Program("stream-agent.ps1", (*POWERSHELL, "-File", r"C:\probe\stream-agent.ps1")),
}


class Garbled(ProbeBroken):
    """A line that has the protocol's mark but violates the protocol."""


def read_line(line: bytes) -> dict[str, Any] | None:
    """Return a protocol line as a dict; return None for other output. Raise Garbled."""
    at = line.find(MARK)
    if at < 0:
        return None
    try:
        document = json.loads(line[at + len(MARK) :])
    except ValueError as error:
        raise Garbled(
            f"garbled line from the agent: {line[:200]!r}", transport=str(error)
        ) from None
    if not isinstance(document, dict) or not isinstance(document.get("type"), str):
        raise Garbled(f"garbled line from the agent: {line[:200]!r}", transport="no type")
    return document


def other_program(hello: dict[str, Any], program: Program) -> str:
    """Return why an agent's hello does not match the program that this suite mounted; empty if it
    matches."""
    if hello.get("protocol") != PROTOCOL:
        return f"it speaks protocol {hello.get('protocol')!r}, but the suite speaks {PROTOCOL}"
    if hello.get("sha256") != program.sha256:
        return (
            f"its program is not this suite's {program.name} "
            f"(SHA-256 {str(hello.get('sha256'))[:12]}..., here {program.sha256[:12]}...)"
        )
    return ""


def batch_line(batch: str, specs: Sequence[dict[str, Any]]) -> bytes:
    """Return the line that requests attempts from an agent. Each attempt has the form of
    :func:`spec`; its id is its position."""
    attempts = [{"id": number, **described} for number, described in enumerate(specs)]
    document = {"type": "batch", "batch": batch, "attempts": attempts}
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def cancel_line(batch: str) -> bytes:
    """Return the line that ends a batch before its time."""
    return json.dumps({"type": "cancel", "batch": batch}).encode("ascii")


def spec(attempt: Attempt) -> dict[str, Any]:
    """Return one attempt in the form that docs/probe-protocol.md describes, without its id.

    Raise ValueError for an attempt without a required field.
    """
    made: dict[str, Any] = {
        "kind": attempt.kind.value,
        "give_up_ms": round(attempt.give_up_after * 1000),
    }
    if made["give_up_ms"] <= 0:
        raise ValueError(f"{attempt.label}: give_up_after must be seconds, more than 0")
    if attempt.target is not None:
        made |= {"host": attempt.target.host, "port": attempt.target.port}
    elif attempt.kind is not Kind.DNS:
        raise ValueError(f"{attempt.label}: only DNS attempts may have no target")
    match attempt.kind:
        case Kind.HTTP:
            made |= {"path": attempt.request}
        case Kind.UDP:
            made |= {"send": attempt.request} if attempt.request != "/" else {}
            made |= {"whole": True} if attempt.whole else {}
            made |= {"from_port": attempt.from_port} if attempt.from_port else {}
        case Kind.DNS:
            if not attempt.query:
                raise ValueError(f"{attempt.label}: a DNS attempt needs a query")
            made |= {
                "query": attempt.query,
                "record": attempt.record,
                "over": "tcp" if attempt.dns_over_tcp else "udp",
            }
    if attempt.payload:
        made |= {"payload": attempt.payload}
    return made


@dataclass(frozen=True)
class When:
    """The times that the results of one line have in common, by ``time.monotonic``."""

    sent: float
    """When the attempts were requested."""
    clock: str
    """The name of the agent's clock."""
    started: float
    """The moment when the agent started, as far as it is known."""
    error: float
    """The maximum error of ``started``, in seconds."""


def _measured(attempt: Attempt, result: dict[str, Any]) -> tuple[bytes, float, float | None]:
    """Return the body, the seconds that the attempt took, and the moment when it began, in seconds
    of the agent's clock.

    Raise ProbeBroken for values that are not valid.
    """
    try:
        given = result.get("body_b64")
        body = base64.b64decode(given, validate=True) if given else b""
        seconds = float(result["ms"]) / 1000
        began = None if result.get("began_ms") is None else float(result["began_ms"]) / 1000
    except (KeyError, TypeError, ValueError) as problem:
        raise _garbled(attempt, result, problem) from None
    return body, seconds, began


def _garbled(attempt: Attempt, result: dict[str, Any], problem: object) -> ProbeBroken:
    text = f"{attempt.label}: garbled result {result!r}: {problem}"
    return ProbeBroken(text, transport="garbled result")


def observation(
    attempt: Attempt, result: dict[str, Any], when: When, tries: int = 1
) -> Observation:
    """Return the observation of a result.

    Raise ProbeBroken if the result is BROKEN, or a verdict that this suite does not know.
    """
    word = str(result.get("verdict", ""))
    detail = str(result.get("detail") or "")
    if word not in Verdict.__members__:
        raise ProbeBroken(
            f"{attempt.label}: the agent could not try: {detail or result}",
            transport=f"{word}: {detail}",
        )
    body, seconds, began = _measured(attempt, result)
    rcode = str(result.get("rcode") or "")
    if word == Verdict.NO_SUCH_NAME and rcode not in ("NOERROR", "NXDOMAIN"):
        raise _garbled(attempt, result, "rcode is neither NOERROR nor NXDOMAIN")
    client, served_by, served_port = identity(result.get("headers") or {}, body)
    began_at = None if began is None else unix(when.started + began)
    return Observation(
        attempt=attempt,
        verdict=Verdict[word],
        at=unix(when.sent),
        seconds=seconds,
        began=began,
        clock=when.clock,
        began_at=began_at,
        began_at_error=None if began_at is None or math.isinf(when.error) else when.error,
        detail=detail,
        local=str(result.get("local") or ""),
        remote=str(result.get("remote") or ""),
        seen_client=client,
        served_by=served_by,
        served_port=served_port,
        status=result.get("status"),
        body=body,
        answers=tuple(str(answer) for answer in result.get("answers") or ()),
        rcode=rcode,
        tries=tries,
    )


def identity(headers: dict[str, Any], body: bytes) -> tuple[str, str, int]:
    """Return (client's address, pod, the client's port) from an echo server's headers and identity
    line.

    Missing values are empty, and a missing port is 0. The headers have no port.
    """
    line = _identity_line(body)
    port = line.get("server_port")
    known_port = port if isinstance(port, int) else 0
    if "x-probe-client" in headers:
        return str(headers["x-probe-client"]), str(headers.get("x-probe-pod") or ""), known_port
    if "client" in line and "pod" in line:
        return str(line["client"]), str(line["pod"]), known_port
    return "", "", 0


def _identity_line(body: bytes) -> dict[str, Any]:
    """Return the first line of an echo server's answer as an object; return an empty object if the
    line is no identity line."""
    if not body.startswith(b"{"):
        return {}
    try:
        line = json.loads(body.split(b"\n", 1)[0])
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}


def same_pod(workload: Workload, served_by: str) -> bool:
    """Return whether ``served_by``, the name that the answering pod reported, is the name of this
    pod."""
    return served_by == f"{workload.namespace}/{workload.pod}"
