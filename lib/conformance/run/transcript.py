"""The transcript: what was asked of which pod and what came back, per test an attachment, per worker a file.

A test's attachment has its attempts and its literal commands; a long-lived agent, which serves many tests, goes into
the worker's file when it ends.  It changes nothing about what it writes down.
"""

from __future__ import annotations

import datetime
import shlex
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from conformance.kube.transcript import ExecRecord
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Workload
from conformance.model.observation import Observation
from conformance.probe.prober import Answered, Asking, Prober

KEPT = 4000
"""Characters of one exec's output that a test's attachment shows; the rest is in the worker's file."""


class ExecTranscript:
    """Of one worker.  Thread-safe."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._lines: list[str] = []

    def exec(self, record: ExecRecord) -> None:
        """One exec that ended, whatever became of it: into the worker's file."""
        text = f"{_head(record)}\n{_output(record)}"
        with self._lock, self._file.open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def literal(self, record: ExecRecord) -> None:
        """One literal command of the running test: into both."""
        self.exec(record)
        output = _output(record)
        if len(output) > KEPT:
            output = f"{output[:KEPT]}\n  ... {len(output) - KEPT} characters more in {self._file}"
        with self._lock:
            self._lines.append(f"{_head(record)}\n{output}")

    def attempts(self, seen: Iterable[Observation]) -> None:
        """What an agent answered to attempts of the running test."""
        with self._lock:
            self._lines += [_attempt(one) for one in seen]

    def take(self) -> str:
        """What the running test has asked so far; the next test begins with nothing."""
        with self._lock:
            lines, self._lines = self._lines, []
        return "\n".join(lines)


class Witnessed:
    """A prober whose every attempt is written down; what broke is, too."""

    def __init__(self, prober: Prober, transcript: ExecTranscript) -> None:
        self._prober, self._transcript = prober, transcript

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        """As :meth:`Prober.observe`."""
        try:
            seen = self._prober.observe(batch)
        except Exception as trouble:
            self._transcript.attempts(getattr(trouble, "seen", ()))
            raise
        self._transcript.attempts(seen)
        return seen

    def asking(self) -> Asking:
        """As :meth:`Prober.asking`; an attempt is written down when its result is taken."""
        return _WitnessedAsking(self._prober.asking(), self._transcript)

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        """As :meth:`Prober.unchanged`."""
        self._prober.unchanged(workloads)


class _WitnessedAsking:
    """Attempts under way, of which each result is written down when it is taken."""

    def __init__(self, asking: Asking, transcript: ExecTranscript) -> None:
        self._asking, self._transcript = asking, transcript

    @property
    def pending(self) -> int:
        return self._asking.pending

    def begin(self, attempts: Sequence[Attempt]) -> list[int]:
        return self._asking.begin(attempts)

    def next(self, within: float) -> Answered | None:
        answered = self._asking.next(within)
        if answered is not None and answered.observation is not None:
            self._transcript.attempts([answered.observation])
        return answered

    def cancel(self) -> None:
        self._asking.cancel()


def _clock(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%H:%M:%S.%f")[:-3]


def _attempt(seen: Observation) -> str:
    words = [_clock(seen.at), seen.attempt.label, seen.attempt.kind.value, seen.verdict.value, f"{seen.seconds:.3f} s"]
    words += [f"the server saw {seen.seen_client}"] if seen.seen_client else []
    words += [f"answers {', '.join(seen.answers)}"] if seen.answers else []
    words += [seen.detail] if seen.detail else []
    return "  ".join(words)


def _head(record: ExecRecord) -> str:
    status = "no exit status" if record.exit_code is None else f"exit {record.exit_code}"
    where = f"{record.namespace}/{record.pod} {record.container}"
    trouble = f"  {record.trouble}" if record.trouble else ""
    return f"{_clock(record.at)}  {where}  $ {shlex.join(record.argv)}  {status}, {record.seconds:.3f} s{trouble}"


def _output(record: ExecRecord) -> str:
    parts = []
    for name, data in (("out", record.stdout), ("err", record.stderr)):
        parts += [f"  {name}  {line}" for line in data.decode("utf-8", "replace").splitlines()]
    return "\n".join(parts)
