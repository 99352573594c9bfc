# SPDX-License-Identifier: Apache-2.0
"""The transcript of all requests to pods and their answers: an attachment for each test, and a file
for each worker.

A test's attachment contains its attempts and its literal commands. A long-lived agent serves many
tests; its exec is written into the worker's file when it ends. The recording changes neither
requests nor answers.
"""

from __future__ import annotations

import datetime
import shlex
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance.kube.transcript import ExecRecord
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Workload
from conformance.model.observation import Observation
from conformance.printing import plain
from conformance.probe.asking import Answered, Asking
from conformance.probe.prober import Prober

KEPT = 4000
"""The number of characters of an exec's output in a test's attachment; the worker's file has the
rest."""


@dataclass(eq=False)
class ExecTranscript:
    """The transcript of a worker.  Thread-safe."""

    file: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def exec(self, record: ExecRecord) -> None:
        """Write a finished exec, or a failed exec, into the worker's file."""
        text = f"{_head(record)}\n{_output(record)}"
        with self._lock, self.file.open("a", encoding="utf-8") as file:
            file.write(plain(text) + "\n")

    def for_test(self) -> TranscriptOfTest:
        """Return a new transcript for one test. Requests that another test left under way are never
        written into this transcript."""
        return TranscriptOfTest(self)


@dataclass(eq=False)
class TranscriptOfTest:
    """The attempts of a test.  Thread-safe."""

    _worker: ExecTranscript
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _lines: list[str] = field(default_factory=list)

    def literal(self, record: ExecRecord) -> None:
        """Write a literal command into this transcript, and into the worker's file."""
        self._worker.exec(record)
        output = _output(record)
        if len(output) > KEPT:
            more = f"{len(output) - KEPT} more characters in {self._worker.file}"
            output = f"{output[:KEPT]}\n  ... {more}"
        with self._lock:
            self._lines.append(f"{_head(record)}\n{output}")

    def attempts(self, observations: Iterable[Observation]) -> None:
        """Write an agent's answers to attempts."""
        with self._lock:
            self._lines += [_attempt(observation) for observation in observations]

    def text(self) -> str:
        with self._lock:
            return "\n".join(self._lines)


@dataclass(eq=False)
class RecordingProber:
    """A prober that writes every attempt and every error into a test's transcript."""

    _prober: Prober
    _transcript: TranscriptOfTest
    _askings: list[Asking] = field(default_factory=list)

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        try:
            observations = self._prober.observe(batch)
        except Exception as error:
            self._transcript.attempts(getattr(error, "observations", ()))
            raise
        self._transcript.attempts(observations)
        return observations

    def asking(self) -> Asking:
        """Return :meth:`Prober.asking`, wrapped so that each attempt is recorded when its result is
        taken."""
        self._askings.append(_RecordingAsking(self._prober.asking(), self._transcript))
        return self._askings[-1]

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        self._prober.unchanged(workloads)

    def end(self) -> None:
        """End the test's requests. Attempts under way are cancelled, so that they keep no agent
        busy."""
        for asking in self._askings:
            asking.cancel()


@dataclass(eq=False)
class _RecordingAsking:
    """Attempts under way. Each attempt is recorded when its result is taken."""

    _asking: Asking
    _transcript: TranscriptOfTest

    def begin(self, attempts: Sequence[Attempt]) -> list[int]:
        return self._asking.begin(attempts)

    def next(self, within: float) -> Answered | None:
        answered = self._asking.next(within)
        if answered is not None and answered.observation is not None:
            self._transcript.attempts([answered.observation])
        return answered

    def waits(self, source: str) -> bool:
        return self._asking.waits(source)

    def cancel(self) -> None:
        self._asking.cancel()


def _clock(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%H:%M:%S.%f")[:-3]


def _attempt(observation: Observation) -> str:
    words = [
        _clock(observation.began_at or observation.at),
        observation.attempt.label,
        observation.attempt.kind.value,
        observation.verdict.value,
        f"{observation.seconds:.3f} s",
    ]
    words += [f"the server saw {observation.seen_client}"] if observation.seen_client else []
    words += [f"answers {', '.join(observation.answers)}"] if observation.answers else []
    words += [observation.detail] if observation.detail else []
    return "  ".join(words)


def _head(record: ExecRecord) -> str:
    status = "no exit status" if record.exit_code is None else f"exit code {record.exit_code}"
    where = f"{record.namespace}/{record.pod} {record.container}"
    problem = f"  {record.problem}" if record.problem else ""
    return f"{_clock(record.at)}  {where}  $ {shlex.join(record.argv)}  {status}, {record.seconds:.3f} s{problem}"


def _output(record: ExecRecord) -> str:
    parts = []
    for name, data in (("out", record.stdout), ("err", record.stderr)):
        parts += [f"  {name}  {line}" for line in data.decode("utf-8", "replace").splitlines()]
    return "\n".join(parts)
