# SPDX-License-Identifier: Apache-2.0
"""A test's transcript has what that test asked, and nothing of what another left under way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance.evidence.transcript import ExecTranscript, RecordingProber
from conformance.kube.transcript import ExecRecord
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Addressing, Target
from conformance.model.observation import Observation, Verdict
from conformance.probe.asking import Answered
from tests.unit.conformance.builders import a_workload

SOURCE = a_workload(namespace="n", node="w1")


def attempt(port: int) -> Attempt:
    target = Target(host="10.0.0.1", port=port, protocol="tcp", path=Addressing.POD_IP)
    return Attempt(source=SOURCE, kind=Kind.TCP, give_up_after=1.0, target=target)


class Scripted:
    """A prober whose attempts all connect when :meth:`Scripted.next` is called."""

    def __init__(self) -> None:
        self.begun: list[Attempt] = []
        self.cancelled = 0
        self.pending = 0

    def asking(self) -> Scripted:
        return self

    def begin(self, attempts: Sequence[Attempt]) -> list[int]:
        self.begun += attempts
        self.pending = len(self.begun)
        return list(range(len(attempts)))

    def next(self, within: float) -> Answered | None:
        one = self.begun.pop(0) if self.begun else None
        self.pending = len(self.begun)
        seen = one and Observation(
            attempt=one, verdict=Verdict.CONNECTED, at=0.0, seconds=0.01, began_at=1.5
        )
        return Answered(1, seen) if seen else None

    def waits(self, source: str) -> bool:
        return False

    def cancel(self) -> None:
        self.cancelled += 1
        self.begun.clear()

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        self.begin(batch)
        return [
            answered.observation
            for answered in (self.next(0), self.next(0))
            if answered and answered.observation
        ]


@pytest.fixture
def prober() -> Any:
    return Scripted()


def test_a_result_is_written_down_when_it_is_taken_and_with_when_it_began(
    prober: Any, tmp_path: Path
) -> None:
    own = ExecTranscript(tmp_path / "file").for_test()
    asking = RecordingProber(prober, own).asking()
    asking.begin([attempt(80), attempt(81)])
    assert own.text() == ""
    asking.next(1.0)
    assert own.text().startswith(
        "00:00:01.500  n/client (linux, node w1) -> 10.0.0.1:80/tcp  tcp  CONNECTED"
    )
    assert len(own.text().splitlines()) == 1


def test_what_a_test_left_under_way_is_cancelled_at_its_end_and_is_in_no_transcript(
    prober: Any, tmp_path: Path
) -> None:
    worker = ExecTranscript(tmp_path / "file")
    first, second = worker.for_test(), worker.for_test()
    witnessed = RecordingProber(prober, first)
    asking = witnessed.asking()
    asking.begin([attempt(80)])
    witnessed.end()
    assert prober.cancelled == 1
    assert asking.next(0.0) is None
    RecordingProber(prober, second).observe([attempt(81)])
    assert first.text() == ""
    assert "10.0.0.1:81/tcp" in second.text()


def test_a_literal_command_is_in_its_tests_transcript_and_in_the_workers_file(
    tmp_path: Path,
) -> None:
    worker = ExecTranscript(tmp_path / "file")
    own, other = worker.for_test(), worker.for_test()
    record = ExecRecord(
        at=0.0, seconds=0.1, namespace="n", pod="p", container="c", argv=("nc", "-vz"), exit_code=0,
        stdout=b"open\n", stderr=b"",
    )  # fmt: skip
    own.literal(record)
    assert "$ nc -vz" in own.text()
    assert own.text() in (tmp_path / "file").read_text()
    assert other.text() == ""
