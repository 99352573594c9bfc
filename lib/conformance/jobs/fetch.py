# SPDX-License-Identifier: Apache-2.0
"""Fetches the results of a run inside the cluster: waits for its judge, and copies its archive. One
file is written, whole or not at all. The archive was written in a pod. Therefore it is not
unpacked, and its contents are only treated as data."""

import base64
import binascii
import hashlib
import json
import queue
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.errors import ClusterUnusable, EnvironmentBroken, SuiteError, first_line
from conformance.jobs.holder import END
from conformance.jobs.objects import HOLDER, JUDGE
from conformance.kube import execute
from conformance.kube.channels import NOT_RUNNING
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import list_at, mapping_at, value_at
from conformance.kube.ownership import RUNNER_NAMESPACE
from conformance.kube.streaming import ExecEnd, ExecStream
from conformance.timing import SYSTEM_CLOCK, Clock, until

PROGRAM = "calico-conformance"
LOOK_EVERY = 5.0
STARTS_WITHIN = 120.0
"""The time limit, in seconds, for the Job's controller to create its pod."""
SILENCE = 600.0
"""The longest wait, in seconds, for data. Packing the results of many nodes takes time."""
ENDS_WITHIN = 60.0
MOST = 2 << 30
"""The maximum size of an archive, in bytes. A whole run has 6 MB."""
NAME = re.compile(r"[\w.-]{1,100}\.zip")
NO_REPORT = 7
UNUSABLE = 4
"""The exit code of a holder without a report to send."""


class NoReport(EnvironmentBroken):
    """The judge has left no report in its container."""


@dataclass(frozen=True)
class Judged:
    """The result of the judge's container, which has ended."""

    pod: str
    code: int
    reason: str
    """Kubernetes' reason, such as ``OOMKilled``; empty if the judge ended by itself."""


@dataclass(eq=False)
class Fetch:
    """The collection of one Job's results."""

    kube: Kube
    job: str
    tell: Callable[[str], None]
    clock: Clock = field(default=SYSTEM_CLOCK, kw_only=True)
    _told: str = ""

    def judged(self, within: float) -> Judged:
        """Wait until the judge has ended. Raise ClusterUnusable if there is no pod of the Job,
        EnvironmentBroken if the judge has not ended in time."""
        where = f"Job {RUNNER_NAMESPACE}/{self.job}"
        there = until(
            self._pod,
            lambda pod: pod is not None,
            within=min(within, STARTS_WITHIN),
            every=LOOK_EVERY,
            description="the Job has a pod",
            clock=self.clock,
        )
        if there.last is None:
            raise ClusterUnusable(
                [
                    f"{where} has no pod: it was not applied, its pod was refused or evicted, or "
                    "is gone with its results; "
                    f"kubectl -n {RUNNER_NAMESPACE} describe job {self.job}"
                ]
            )
        pod, state = until(
            self._observed,
            lambda found: found[1] is not None,
            within=within,
            every=LOOK_EVERY,
            description="the judge has ended",
            hopeless=lambda found: found[0] is None,
            clock=self.clock,
        ).last
        if pod is None:
            raise ClusterUnusable([f"the pod of {where} is gone, and its results with it"])
        if state is None:
            raise EnvironmentBroken(
                f"the judge of {where} has not ended within {within / 60:.0f} min; fetch again"
            )
        reason = str(state.get("reason") or "")
        return Judged(
            pod["metadata"]["name"],
            int(state.get("exitCode", NO_REPORT)),
            "" if reason in ("Completed", "Error") else reason,
        )

    def take(self, judged: Judged, folder: Path) -> Path:
        """Write the archive into a folder; return its path.  Raise EnvironmentBroken, OSError."""
        lines: queue.SimpleQueue[bytes | ExecEnd] = queue.SimpleQueue()
        stream = ExecStream(
            self.kube,
            RUNNER_NAMESPACE,
            judged.pod,
            HOLDER,
            [PROGRAM, "hold", "--send", f"/results/{judged.pod}"],
            on_line=lines.put,
            on_end=lines.put,
            silence=SILENCE,
        )
        try:
            head, body = archive(iter(lines.get, None))
        finally:
            stream.close()
        target = folder / str(head["name"])
        fresh = target.with_suffix(".part")
        try:
            fresh.write_bytes(body)
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)
        return target

    def release(self, judged: Judged) -> None:
        """Let the holder end.  Raise EnvironmentBroken, ExecBroken."""
        done = execute.run(
            self.kube,
            RUNNER_NAMESPACE,
            judged.pod,
            HOLDER,
            [PROGRAM, "hold", "--release", f"/results/{judged.pod}"],
            within=ENDS_WITHIN,
        )
        if done.exit_code:
            raise EnvironmentBroken(f"container holder does not end: {first_line_of(done.output)}")

    def _pod(self) -> Obj | None:
        """Return the Job's pod, the newest if there are several; None if there is none."""
        pods = self.kube.objects("v1", "Pod", RUNNER_NAMESPACE, labels=f"job-name={self.job}")
        return max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)

    def _observed(self) -> tuple[Obj | None, dict[str, Any] | None]:
        """Return the pod, and the judge's terminated state if it has ended; print each new
        state."""
        pod = self._pod()
        for status in list_at(pod, "status", "containerStatuses"):
            if status.get("name") == JUDGE:
                self._report(mapping_at(status, "state"))
                return pod, value_at(status, "state", "terminated")
        if pod:
            self._report({str(value_at(pod, "status", "phase") or "unknown"): {}})
        return pod, None

    def _report(self, state: dict[str, Any]) -> None:
        for name, detail in state.items():
            words = [name, *(str((detail or {}).get(key) or "") for key in ("reason", "message"))]
            text = " ".join(filter(None, words))
            if text != self._told:
                self._told = text
                self.tell(f"judge: {text}")


def archive(received: Iterator[bytes | ExecEnd]) -> tuple[dict[str, Any], bytes]:
    """Return the head and the content of the archive that a holder sent, after a check of its
    length and SHA-256. Raise EnvironmentBroken."""
    head: dict[str, Any] = {}
    body = bytearray()
    for line in received:
        if isinstance(line, ExecEnd) and line.exit_code == UNUSABLE:
            raise NoReport(first_line_of(line.stderr).removeprefix("ERROR: "))
        if isinstance(line, ExecEnd) and line.problem.startswith(NOT_RUNNING):
            raise EnvironmentBroken(
                "container holder has ended, as it does once the results were "
                "fetched, or after 24 hours; only a volume still has them (calico-conformance job "
                "--volume)"
            )
        if isinstance(line, ExecEnd):
            why = line.problem or first_line_of(line.stderr) or f"exit code {line.exit_code}"
            raise EnvironmentBroken(f"the archive was not sent completely: {why}; fetch again")
        if line == END:
            break
        if head:
            body += _decoded(line)
        else:
            head = _head(line)
        if len(body) > head["bytes"]:
            break
    if len(body) != head.get("bytes") or hashlib.sha256(body).hexdigest() != head["sha256"]:
        raise EnvironmentBroken(
            f"the archive arrived damaged: {len(body)} of {head.get('bytes', 0)} bytes; fetch again"
        )
    return head, bytes(body)


def _head(line: bytes) -> dict[str, Any]:
    """Return name, length and SHA-256 of the archive.  Raise EnvironmentBroken."""
    try:
        head = json.loads(line)
        fits = (
            NAME.fullmatch(head["name"])
            and 0 <= int(head["bytes"]) <= MOST
            and re.fullmatch("[0-9a-f]{64}", head["sha256"])
        )
    except (ValueError, KeyError, TypeError):
        fits = None
    if not fits:
        text = line[:200].decode(errors="backslashreplace")
        raise EnvironmentBroken(f"container holder sends no archive: {text}")
    return {"name": head["name"], "bytes": int(head["bytes"]), "sha256": head["sha256"]}


def _decoded(line: bytes) -> bytes:
    try:
        return base64.b64decode(line, validate=True)
    except binascii.Error as error:
        raise EnvironmentBroken(f"the archive arrived damaged: {error}; fetch again") from None


def first_line_of(text: str) -> str:
    """Return the first line of a command's output that is not blank; an empty string if there is
    none."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def fetch(kube: Kube, job: str, folder: Path, minutes: float, tell: Callable[[str], None]) -> int:
    """Wait for the judge, take the archive, and let the holder end. Return the judge's exit code.

    Without a report the holder stays, so that the user can inspect the folder of results. If the
    holder cannot be ended, a message is printed, and the exit code stays the same. Raise SuiteError
    (the user can fetch again), OSError.
    """
    one = Fetch(kube, job, tell)
    judged = one.judged(minutes * 60)
    ended = f"the judge ended with exit code {judged.code}"
    try:
        path = one.take(judged, folder)
    except NoReport as error:
        tell(
            f"{ended}{f' ({judged.reason})' if judged.reason else ''}: {error}; read the end of "
            "its log: "
            f"kubectl -n {RUNNER_NAMESPACE} logs {judged.pod} -c {JUDGE} --tail=20"
        )
        return judged.code or NO_REPORT
    tell(f"{path}: {path.stat().st_size / 1e6:.1f} MB; {ended}")
    try:
        one.release(judged)
    except SuiteError as error:
        tell(f"container holder may keep running, for 24 hours at most: {first_line(error)}")
    return judged.code
