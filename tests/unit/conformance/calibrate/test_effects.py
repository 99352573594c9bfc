# SPDX-License-Identifier: Apache-2.0
"""The time of a path's change is known from its last two attempts; a client's SYNs are recognized
among packets."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.calibrate import effects, network
from conformance.calibrate.command import STEPS
from conformance.calibrate.record import Record
from conformance.model.attempt import Attempt, Kind
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_workload


def ended(verdict: Verdict, began_at: float | None, seconds: float = 0.5) -> Observation:
    pod = a_workload()
    attempt = Attempt(source=pod, kind=Kind.TCP, give_up_after=1.0, target=pod.tcp(80))
    return Observation(
        attempt=attempt, verdict=verdict, at=90.0, seconds=seconds, began_at=began_at
    )


OPEN, CLOSED = Verdict.CONNECTED, Verdict.TIMED_OUT


@pytest.mark.parametrize(
    ("before", "seen", "open_", "at"),
    [
        (None, ended(OPEN, 100.0), True, 100.5),
        (None, ended(OPEN, None), True, 90.5),
        (ended(CLOSED, 99.0), ended(OPEN, 100.0), True, 100.5),
        (ended(OPEN, 99.0), ended(CLOSED, 100.0), True, None),
        (None, ended(CLOSED, 100.0), False, None),
        (ended(OPEN, 99.0), ended(CLOSED, 100.0), False, None),
        (ended(CLOSED, 99.0), ended(OPEN, 100.0), False, None),
        (ended(CLOSED, 99.0), ended(CLOSED, 100.0), False, 99.0),
    ],
)
def test_a_path_is_closed_after_two_attempts_and_open_after_one(
    before: Any, seen: Observation, open_: bool, at: float | None
) -> None:
    assert effects._changed(before, seen, open_=open_) == at


def test_all_steps_together_make_fifteen_changes_of_policy_and_fifteen_removals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    scene: Any = SimpleNamespace(
        changes=SimpleNamespace(
            apply=lambda *_, **__: done.append("applied"), delete=lambda *_: done.append("deleted")
        ),
        pods=SimpleNamespace(namespace="n"),
        box=SimpleNamespace(remaining=500.0),
        clients=[],
        servers=[],
        each=lambda *_: None,
    )
    monkeypatch.setattr(effects, "until_all", lambda *_, **__: None)
    for _, _, _, measure in STEPS:
        if measure in (effects.policy, network.syns):
            measure(scene)
    assert done == 15 * ["applied", "deleted"]


def test_without_time_it_is_not_said_that_there_was_no_effect() -> None:
    lacking: list[tuple[str, str, str]] = []
    scene: Any = SimpleNamespace(
        prober=SimpleNamespace(asking=lambda: SimpleNamespace(cancel=lambda: None)),
        box=SimpleNamespace(remaining=0.0),
        record=SimpleNamespace(lack=lambda *words: lacking.append(words)),
    )
    pod = a_workload()
    attempt = ended(OPEN, None).attempt
    effects.until_all(scene, {("policy-effect/tcp", pod): attempt}, open_=False)
    assert lacking == [("policy-effect/tcp", "no time was left", pod.node)]


@pytest.mark.parametrize(
    ("patience", "words"),
    [(network.PATIENT, "TIMED_OUT"), (network.TIME_OUT, "TIMED_OUT TimedOut/10060")],
)
def test_a_time_out_has_the_systems_words_where_the_attempt_waits_for_them(
    patience: float, words: str
) -> None:
    asked = dataclasses.replace(ended(CLOSED, None).attempt, give_up_after=patience)
    observed = dataclasses.replace(
        ended(CLOSED, None, 21.0), attempt=asked, detail="TimedOut/10060"
    )
    scene: Any = SimpleNamespace(
        prober=SimpleNamespace(observe=lambda batch: [observed]), record=Record()
    )
    network._keep(scene, {"time-out/windows": asked})
    found = {name: one["values"] for (name, _), one in scene.record.measurements.items()}
    assert found == {"time-out/windows": [words], "time-out-seconds/windows": [21.0]}


def test_each_syn_of_the_client_counts_once_however_many_devices_it_passed() -> None:
    text = "\n".join(
        [
            "10:00:01.000000 eth0 in  10.0.0.1 > 10.0.0.2 UDP 9 > 4789 VNI 4096, 90 bytes | "
            "192.168.0.5 > 192.168.0.9 TCP 41234 > 8080 SYN, 60 bytes",
            "10:00:01.000300 cali1 out 192.168.0.5 > 192.168.0.9 TCP 41234 > 8080 SYN, 60 bytes",
            "10:00:01.000400 cali1 in  192.168.0.9 > 192.168.0.5 TCP 80 > 41234 SYN,ACK, 60 bytes",
            "10:00:02.500000 cali1 out 192.168.0.55 > 192.168.0.9 TCP 1 > 8080 SYN, 60 bytes",
            "10:00:04.100000 cali1 out 192.168.0.5 > 192.168.0.9 TCP 41234 > 8080 SYN, 60 bytes",
        ]
    )
    first, second = network.syn_times(text, "192.168.0.5")
    assert second - first == pytest.approx(3.1)
