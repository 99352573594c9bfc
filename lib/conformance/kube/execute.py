# SPDX-License-Identifier: Apache-2.0
"""Runs a command in a pod to its end: returns bytes and an exit code, or raises ExecBroken with
everything received so far."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conformance.kube import answers, channels
from conformance.kube.channels import ExecBroken
from conformance.kube.client import Kube
from conformance.kube.refused import describe
from conformance.kube.transcript import ExecRecord, Transcript, forget


@dataclass(frozen=True)
class ExecResult:
    """The result of a command that ended."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float

    @property
    def output(self) -> str:
        """Return standard output and error as text for people. Bytes that are not UTF-8 are
        escaped."""
        return (self.stdout + self.stderr).decode(errors="backslashreplace").replace("\r\n", "\n")


def run(
    kube: Kube,
    namespace: str,
    pod: str,
    container: str,
    argv: Sequence[str],
    *,
    within: float,
    stdin: bytes | None = None,
    transcript: Transcript = forget,
) -> ExecResult:
    """Run ``argv`` and wait for its exit status.

    ``within``: the time limit of the whole exec in seconds. Raise ExecBroken (a ProbeBroken) if the
    exec is refused, cut or hanging, loses its status, or cannot start. Thread-safe.
    """
    kube.changes_something(f"run a command in {namespace}/{pod}")
    begin = time.monotonic()
    at = time.time()
    received: dict[int, bytearray] = {
        number: bytearray() for number in (channels.STDOUT, channels.STDERR, channels.ERROR)
    }
    code: int | None = None
    retryable = True
    problem = "no connection"
    try:
        channel = channels.connect(
            kube,
            namespace,
            pod,
            container,
            argv,
            stdin=stdin is not None,
            within=min(kube.timings.exec_connect, within),
        )
        try:
            problem = _converse(channel, received, stdin, begin + within)
        except answers.TooMuch as error:
            problem = str(error)
            retryable = False
            received[channels.ERROR].clear()
        finally:
            channel.shutdown()
        code, lost = channels.exit_status(bytes(received[channels.ERROR]))
        retryable = retryable and channels.COULD_NOT_START not in lost
        # If the status has arrived, it does not matter how the connection ended.
        problem = (problem or lost) if code is None else ""
    except ExecBroken as broken:
        problem = str(broken)
        raise
    finally:
        seconds = time.monotonic() - begin
        out = bytes(received[channels.STDOUT])
        err = bytes(received[channels.STDERR])
        transcript(
            ExecRecord(
                at=at,
                seconds=seconds,
                namespace=namespace,
                pod=pod,
                container=container,
                argv=tuple(argv),
                exit_code=code,
                stdout=out,
                stderr=err,
                problem=problem,
            )
        )
    if code is None:
        raise ExecBroken(
            f"exec of {' '.join(argv)[:120]!r} in {namespace}/{pod}/{container}: {problem} after {seconds:.1f} s "
            f"(stdout {_short(out)}, stderr {_short(err)})",
            transport=problem,
            stdout=out,
            stderr=err,
            retryable=retryable,
            asked=True,
        )
    return ExecResult(code, out, err, seconds)


def _converse(channel: Any, heard: dict[int, bytearray], stdin: bytes | None, end: float) -> str:
    """Send standard input and collect output until the server closes; return the error, or an empty
    string."""
    import websocket  # imported only to run something in a pod

    lines = answers.Lines("a line of the command's output")
    try:
        channel.until = end
        channel.settimeout(max(0.001, end - time.monotonic()))
        if stdin is not None:
            channels.send(channel, stdin)
            channels.close_stdin(channel)
        while end > time.monotonic():
            operation, data = channel.recv_data(control_frame=True)
            if operation == websocket.ABNF.OPCODE_CLOSE:
                return ""
            if operation == websocket.ABNF.OPCODE_BINARY and data and data[0] in heard:
                heard[data[0]] += data[1:]
                lines.add(data[1:] if data[0] == channels.STDOUT else b"")
        return "the command did not end in time"
    except answers.TooMuch:
        raise
    except websocket.WebSocketTimeoutException:
        return "the command did not end in time"
    except websocket.WebSocketConnectionClosedException:
        return "the connection was cut"
    except (websocket.WebSocketException, OSError) as error:
        return f"the connection broke: {describe(error)}"


def _short(data: bytes, limit: int = 200) -> str:
    text = data.decode(errors="backslashreplace").strip()
    return repr(text if len(text) <= limit else text[:limit] + "...") if text else "empty"
