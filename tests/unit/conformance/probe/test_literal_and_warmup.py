# SPDX-License-Identifier: Apache-2.0
"""Literal commands run in the pod's main container; warming up waits for answers and decides
nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.probe.prober import Prober
from conformance.probe.warmup import LOOK_AFTER, warm_up
from conformance.settings import load_timings

TARGET = Target(host="10.0.0.5", port=80, protocol="tcp", path=Addressing.POD_IP)


def test_a_literal_command_runs_word_for_word_in_the_main_container(
    prober: Prober, api: Any, make: Any
) -> None:
    asked: list[dict[str, list[str]]] = []

    def serve(channel: Any, query: dict[str, list[str]]) -> None:
        asked.append(query)
        channel.send(2, b"10.0.0.5 (10.0.0.5:80) open\n")
        channel.status(0)
        channel.close()

    api.exec = serve
    ended = prober.run(make.workload(role="linux-client"), ["nc", "-vz", "10.0.0.5", "80"], 5.0)
    assert (ended.exit_code, ended.output) == (0, "10.0.0.5 (10.0.0.5:80) open\n")
    assert asked[0]["container"] == ["client"]
    assert asked[0]["command"] == ["nc", "-vz", "10.0.0.5", "80"]


def test_a_literal_command_on_windows_takes_a_powershell_slot(
    prober: Prober, api: Any, make: Any
) -> None:
    slots = prober.slots
    free: list[int] = []

    def serve(channel: Any, _: Any) -> None:
        held = [slots.take("powershell-win-1", 2) for _ in range(2)]
        free.append(sum(slot is not None for slot in held))
        for slot in held:
            if slot:
                slot.release()
        channel.status(0)
        channel.close()

    api.exec = serve
    prober.run(
        make.workload("w", "windows", "win-1", role="windows-client"), ["powershell", "x"], 5.0
    )
    assert free == [1]


class Scripted:
    """A prober that answers by round and keeps what it was asked."""

    def __init__(self, *rounds: Verdict) -> None:
        self.rounds, self.asked, self.lost = list(rounds), list[int](), ""

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        if self.lost:
            raise EnvironmentBroken(self.lost)

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        self.asked.append(len(batch))
        verdict = self.rounds.pop(0) if len(self.rounds) > 1 else self.rounds[0]
        return [
            Observation(
                attempt=attempt,
                verdict=verdict if attempt.kind is Kind.DNS else Verdict.CONNECTED,
                at=0,
                seconds=0,
            )
            for attempt in batch
        ]


class Instant:
    """A clock on which waiting takes no time."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_only_what_is_still_cold_is_asked_again(make: Any) -> None:
    prober = Scripted(Verdict.DNS_FAILED, Verdict.DNS_FAILED, Verdict.RESOLVED)
    clients = [make.workload("a"), make.workload("b")]
    warmth = warm_up(prober, clients, TARGET, "kubernetes", timings=load_timings(), clock=Instant())
    assert warmth.cold == ()
    assert prober.asked == [4, 2, 2]


def test_a_name_that_does_not_exist_is_an_answer_too(make: Any) -> None:
    prober = Scripted(Verdict.NO_SUCH_NAME)
    assert (
        warm_up(prober, [make.workload()], None, "x", timings=load_timings(), clock=Instant()).cold
        == ()
    )


def test_a_pod_that_stays_cold_is_told_and_left_to_the_claims(make: Any) -> None:
    timings = load_timings()
    timings = replace(timings, linux=replace(timings.linux, warm_up=3.0))
    warmth = warm_up(
        Scripted(Verdict.DNS_FAILED), [make.workload()], None, "x", timings=timings, clock=Instant()
    )
    assert [observation.verdict for observation in warmth.cold] == [Verdict.DNS_FAILED]
    assert (
        "some pods have no network after 3 s: n/client (linux, node w1) -> DNS A x: DNS_FAILED"
        in warmth.line
    )


def test_on_a_node_that_died_nothing_gets_warm(make: Any) -> None:
    prober, clock = Scripted(Verdict.DNS_FAILED), Instant()
    prober.lost = "node w1 was lost during the run"
    with pytest.raises(EnvironmentBroken, match="node w1 was lost"):
        warm_up(prober, [make.workload()], None, "x", timings=load_timings(), clock=clock)
    assert LOOK_AFTER <= clock.now <= LOOK_AFTER + 1.0
