# SPDX-License-Identifier: Apache-2.0
"""Observing gives one observation per attempt, from agents that are started once and ended with the run."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from conformance.kube.transcript import ExecRecord
from conformance.model.observation import Verdict
from conformance.probe import protocol
from conformance.probe.prober import Prober
from tests.unit.conformance.probe.broken_execs import greet


def test_observations_come_in_the_order_of_the_batch_from_all_sources(
    prober: Prober, agents: Any, make: Any, listening: int, closed: int
) -> None:
    sources = [make.workload(f"client-{number}") for number in range(3)]
    batch = [make.attempt(port, source) for port in (listening, closed) for source in sources]
    seen = prober.observe(batch)
    assert [observation.attempt for observation in seen] == batch
    assert [observation.verdict for observation in seen] == [Verdict.CONNECTED] * 3 + [
        Verdict.REFUSED
    ] * 3
    assert len(agents.started) == 3


def test_an_agent_is_started_once_and_asked_again(
    prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    for _ in range(3):
        assert prober.observe([make.attempt(listening)])[0].tries == 1
    assert len(agents.started) == 1
    assert agents.started[0]["command"] == ["python3", "-I", "-S", "-u", "/probe/agent.py"]
    assert prober.counts.starts[("w1", "linux")] == 1
    assert prober.counts.batches[("w1", "linux")] == 3


def test_a_batch_of_nothing_is_nothing(prober: Prober) -> None:
    assert prober.observe([]) == []


def test_an_agent_that_dies_is_replaced_and_the_attempts_are_sent_again(
    prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    def dies_when_asked(channel: Any, query: Any) -> None:
        greet(channel, make)
        channel.receive()
        channel.cut()

    agents.script = [dies_when_asked]
    seen = prober.observe([make.attempt(listening)])[0]
    assert (seen.verdict, seen.tries) == (Verdict.CONNECTED, 2)
    assert prober.counts.restarts[("w1", "linux")] == 1
    assert prober.counts.repeated[("w1", "linux")] == 1


def test_an_agent_that_left_because_nobody_asked_is_started_anew_without_being_counted_as_broken(
    prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    agents.script = [lambda channel, query: agents.real(channel, query, ("--idle", "0.05"))]
    first = prober.agent(make.workload(), protocol.AGENTS["linux"])
    for _ in range(200):
        if not first.alive:
            break
        threading.Event().wait(0.01)
    assert prober.observe([make.attempt(listening)])[0].verdict is Verdict.CONNECTED
    assert prober.counts.starts[("w1", "linux")] == 2
    assert prober.counts.restarts[("w1", "linux")] == 0


def test_closing_ends_the_agents_and_gives_their_slots_back(
    kube: Any, agents: Any, make: Any, listening: int, tmp_path: Path
) -> None:
    records: list[ExecRecord] = []
    prober = Prober(kube, tmp_path / "run", make.settings, transcript=records.append)
    prober.observe([make.attempt(listening)])
    prober.close()
    assert [record.exit_code for record in records] == [0]
    assert {interval.name for interval in prober.slots.intervals} == {"agent", "python-w1"}
