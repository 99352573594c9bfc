# SPDX-License-Identifier: Apache-2.0
"""Limits on the number of agents that live at once: in a process, on a node and in all processes of
a run."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import ProbeBroken
from conformance.model.attempt import Kind
from conformance.model.observation import Verdict
from conformance.probe import protocol
from conformance.probe.prober import Limits, Prober
from conformance.settings import Settings
from tests.unit.conformance.probe.conftest import QUICK


def test_live_agents_are_bounded_and_an_idle_one_makes_room(
    kube: Any, agents: Any, make: Any, listening: int, tmp_path: Path
) -> None:
    prober = Prober(kube, tmp_path / "run", make.settings, limits=Limits(agents=2))
    try:
        for number in range(4):
            prober.observe([make.attempt(listening, make.workload(f"client-{number}"))])
            assert len(prober.agents._agents) <= 2
        assert len(agents.started) == 4
    finally:
        prober.close()


def test_idle_agents_of_one_process_leave_another_its_share(
    kube: Any, agents: Any, make: Any, listening: int, tmp_path: Path
) -> None:
    one, other = (
        Prober(kube, tmp_path / "run", make.settings, limits=Limits(agents=4, share=2))
        for _ in range(2)
    )
    try:
        for prober, name in ((one, "a"), (other, "b")):
            for number in range(4):
                prober.observe([make.attempt(listening, make.workload(f"{name}-{number}"))])
        assert (len(one.agents._agents), len(other.agents._agents)) == (2, 2)
    finally:
        one.close()
        other.close()


def test_live_agents_on_a_windows_node_are_bounded_for_all_processes(
    kube: Any, agents: Any, make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        protocol.AGENTS, "windows", protocol.AGENTS["linux"]
    )  # the stand-in is agent.py
    limits = Limits(per_windows_node=3, share_of_node=1)
    prober, other = (Prober(kube, tmp_path / "run", make.settings, limits=limits) for _ in range(2))
    program = protocol.AGENTS["linux"]
    try:
        for number in range(4):
            prober.agent(make.workload(f"a-{number}", "windows", "win-1"), program)
            prober.agent(make.workload(f"l-{number}"), program)
        prober.agent(make.workload("a-5", "windows", "win-2"), program)
        assert len(prober.agents._agents) == 6, (
            "one on win-1, which is its share there, one on win-2, and those on Linux"
        )
        taken = [
            other.agent(make.workload(f"b-{number}", "windows", "win-1"), program)
            for number in range(2)
        ]
        assert taken[1].alive
        assert len(other.agents._agents) == 1
    finally:
        prober.close()
        other.close()


def test_what_a_process_keeps_on_a_node_beyond_its_share_goes_when_another_waits(
    kube: Any, agents: Any, make: Any, tmp_path: Path
) -> None:
    wide = Limits(per_windows_node=2, share_of_node=2)
    narrow = Limits(per_windows_node=2, share_of_node=1)
    program = protocol.AGENTS["linux"]
    prober, other = (
        Prober(kube, tmp_path / "run", make.settings, limits=limits) for limits in (wide, narrow)
    )
    try:
        for number in range(2):
            prober.agent(make.workload(f"a-{number}", "windows", "win-1"), program)
        prober.agents.limits = narrow
        assert other.agent(make.workload("b", "windows", "win-1"), program).alive
        assert (len(prober.agents._agents), len(other.agents._agents)) == (1, 1)
    finally:
        prober.close()
        other.close()


def test_more_sources_than_live_agents_are_asked_in_turns(
    kube: Any, agents: Any, make: Any, listening: int, tmp_path: Path
) -> None:
    prober = Prober(kube, tmp_path / "run", make.settings, limits=Limits(agents=2))
    try:
        seen = prober.observe(
            [make.attempt(listening, make.workload(f"client-{number}")) for number in range(6)]
        )
        assert [observation.verdict for observation in seen] == [Verdict.CONNECTED] * 6
        assert len(prober.agents._agents) <= 2
    finally:
        prober.close()


def test_an_agent_for_which_no_slot_becomes_free_names_its_pod_and_what_to_do(
    kube: Any, agents: Any, make: Any, tmp_path: Path
) -> None:
    timings = make.settings.timings
    hasty = replace(
        make.settings, timings=replace(timings, linux=replace(timings.linux, agent_slot=0.2))
    )
    prober = Prober(kube, tmp_path / "run", hasty, limits=Limits(agents=1))
    source = make.workload("client-0")
    expected = (
        rf"^no agent could be started in {re.escape(source.label)}: "
        "no slot agent .*; start fewer workers"
    )
    try:
        with prober.slots.hold("agent", 1, 1.0), pytest.raises(ProbeBroken, match=expected):
            prober.agent(source, protocol.AGENTS["linux"])
    finally:
        prober.close()


def test_waiting_for_other_starts_counts_as_no_error(
    kube: Any, agents: Any, make: Any, listening: int, tmp_path: Path
) -> None:
    patience = replace(
        make.settings.timings.linux, exec_overhead=0.5, agent_hello=1.5, agent_slot=15.0
    )
    settings = replace(make.settings, timings=replace(make.settings.timings, linux=patience))
    prober = Prober(kube, tmp_path / "run", settings, limits=Limits(agents=1))
    slot = prober.slots.take("agent", 1)
    assert slot
    agents.script = [lambda channel, _: channel.cut()]
    threading.Timer(4.0, slot.release).start()
    try:
        assert prober.observe([make.attempt(listening)])[0].verdict is Verdict.CONNECTED
        assert len(agents.started) == 2, "the first was cut, and there was still time for a second"
    finally:
        prober.close()


def test_what_one_process_keeps_beyond_its_share_goes_when_another_waits(
    kube: Any, agents: Any, make: Any, listening: int, tmp_path: Path
) -> None:
    prober, other = (
        Prober(kube, tmp_path / "run", make.settings, limits=Limits(agents=4, share=2))
        for _ in range(2)
    )
    try:
        prober.observe(
            [make.attempt(listening, make.workload(f"a-{number}")) for number in range(4)]
        )
        assert len(prober.agents._agents) == 4, "it needed them at once, and nobody else did"
        assert not prober.slots.wanted("agent")
        seen = other.observe(
            [make.attempt(listening, make.workload(f"b-{number}")) for number in range(2)]
        )
        assert [found.verdict for found in seen] == [Verdict.CONNECTED] * 2
        assert (len(prober.agents._agents), len(other.agents._agents)) == (2, 2)
        assert other.counts.repeated.total() == prober.counts.repeated.total() == 0
    finally:
        prober.close()
        other.close()


@pytest.mark.usefixtures("agents")
def test_a_process_that_needs_more_than_its_share_gets_what_others_have_not_used_for_a_while(
    kube: Any, make: Any, listening: int, silent: int, tmp_path: Path
) -> None:
    timings = replace(QUICK, linux=replace(QUICK.linux, agent_silence=30.0))
    prober, other = (
        Prober(kube, tmp_path / "run", Settings(timings=timings), limits=Limits(agents=4, share=2))
        for _ in range(2)
    )
    try:
        for one, name in ((prober, "a"), (other, "b")):
            one.observe([make.attempt(listening, make.workload(f"{name}-{n}")) for n in range(2)])
        busy = [
            make.attempt(silent, make.workload(f"b-{n}"), kind=Kind.UDP, give_up=12.0)
            for n in range(2)
        ]
        other.asking().begin(busy)
        (seen,) = other.observe([make.attempt(listening, make.workload("b-2"))])
        assert seen.verdict is Verdict.CONNECTED
        assert len(prober.agents._agents) == 1, "no more than were needed"
    finally:
        prober.close()
        other.close()


def test_powershell_starts_are_bounded_per_windows_node(
    kube: Any, agents: Any, make: Any, listening: int, tmp_path: Path
) -> None:
    sources = [make.workload(f"win-{number}", "windows", "win-1") for number in range(4)]
    together, most, lock = 0, 0, threading.Lock()

    def slow_start(channel: Any, query: Any) -> None:
        nonlocal together, most
        assert query["command"][0] == "powershell.exe"
        with lock:
            together += 1
            most = max(most, together)
        threading.Event().wait(0.05)
        with lock:
            together -= 1
        agents.real(channel, query)

    agents.script = [slow_start] * 4
    prober = Prober(kube, tmp_path / "run", make.settings)
    with pytest.raises(
        ProbeBroken, match=r"is not this suite's matrix-agent\.ps1"
    ):  # the stand-in is agent.py
        prober.observe([make.attempt(listening, source) for source in sources])
    prober.close()
    assert most <= 2
