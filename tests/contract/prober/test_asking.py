# SPDX-License-Identifier: Apache-2.0
"""Attempts begin when they are requested, each result is reported when it arrives, and attempts
that were given up report nothing."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, ProbeBroken
from conformance.kube.client import Kube
from conformance.model.attempt import Kind
from conformance.model.observation import Verdict
from conformance.probe.asking import Answered
from conformance.probe.prober import LiveAsking, Prober
from conformance.settings import Settings
from tests.unit.conformance.probe.conftest import QUICK


@pytest.fixture
def listening() -> Iterator[int]:
    """A TCP port that accepts."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen(64)
        yield one.getsockname()[1]


def all_of(asking: LiveAsking) -> list[Answered]:
    found = []
    while asking.pending:
        answered = asking.next(10.0)
        assert answered is not None, "an attempt was lost"
        found.append(answered)
    return found


def test_tickets_are_unique_and_each_is_answered_once(
    prober: Prober, make: Any, listening: int
) -> None:
    asking = prober.asking()
    sources = [make.workload(name) for name in "ab"]
    tickets = asking.begin([make.attempt(listening, source) for source in sources])
    tickets += asking.begin([make.attempt(listening, source) for source in sources])
    assert len(set(tickets)) == asking.pending == 4
    found = all_of(asking)
    assert sorted(answered.ticket for answered in found) == sorted(tickets)
    assert {answered.observation.verdict for answered in found if answered.observation} == {
        Verdict.CONNECTED
    }
    assert asking.next(0.0) is None


def test_a_result_of_one_source_does_not_wait_for_another(
    prober: Prober, make: Any, listening: int, silent: int
) -> None:
    slow = make.attempt(silent, make.workload("slow"), Kind.UDP, 1.0)
    quick = make.attempt(listening, make.workload("quick"))
    prober.observe(
        [make.attempt(listening, item.source) for item in (slow, quick)]
    )  # both agents are there
    asking = prober.asking()
    asking.begin([slow, quick])
    first = asking.next(10.0)
    assert first
    assert first.observation
    assert first.observation.attempt == quick
    assert [
        answered.observation.verdict for answered in all_of(asking) if answered.observation
    ] == [Verdict.TIMED_OUT]


def test_rounds_overlap_and_are_ordered_by_when_the_agent_began_them(
    prober: Prober, agents: Any, make: Any, listening: int, silent: int
) -> None:
    prober.observe([make.attempt(listening)])
    asking, tickets = prober.asking(), []
    for _ in range(4):
        tickets += asking.begin([make.attempt(silent, kind=Kind.UDP, give_up=0.6)])
        time.sleep(0.1)
    found = {answered.ticket: answered.observation for answered in all_of(asking)}
    seen = [found[ticket] for ticket in tickets]
    assert all(seen)
    assert len({observation.clock for observation in seen if observation}) == 1
    moments = [observation.began for observation in seen if observation and observation.began]
    assert moments == sorted(moments)
    assert all(later - earlier >= 0.05 for earlier, later in itertools.pairwise(moments))
    assert moments[1] < moments[0] + 0.6, "the second began before the first had given up"
    assert len(agents.started) == 1


def test_an_agent_started_again_has_another_clock(
    prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    (before,) = prober.observe([make.attempt(listening)])
    prober.agents._agents[make.workload().uid, "agent.py"].close()
    (after,) = prober.observe([make.attempt(listening)])
    assert len(agents.started) == 2
    assert before.clock != after.clock


def test_beginning_does_not_wait_for_an_agent_that_is_being_started(
    prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    may_start = threading.Event()

    def slow_start(channel: Any, query: Any) -> None:
        may_start.wait(5)
        agents.real(channel, query)

    agents.script = [slow_start]
    asking = prober.asking()
    for _ in range(3):
        asking.begin([make.attempt(listening)])
    assert asking.next(0.05) is None
    source = make.attempt(listening).source.uid
    assert asking.waits(source)
    may_start.set()
    assert [answered.observation.tries for answered in all_of(asking) if answered.observation] == [
        1,
        1,
        1,
    ]
    assert not asking.waits(source)
    assert len(agents.started) == 1, "what was begun meanwhile waited for the same agent"


def test_of_what_was_cancelled_nothing_is_heard(
    prober: Prober, make: Any, listening: int, silent: int
) -> None:
    asking = prober.asking()
    asking.begin([make.attempt(silent, kind=Kind.UDP, give_up=0.5), make.attempt(listening)])
    asking.cancel()
    assert asking.pending == 0
    assert asking.next(0.8) is None
    asking.begin([make.attempt(listening)])
    (again,) = all_of(asking)
    assert again.observation
    assert again.observation.verdict is Verdict.CONNECTED


def test_cancelling_frees_the_agent_at_once_and_leaves_the_attempts_of_others(
    prober: Prober, make: Any, listening: int, silent: int
) -> None:
    prober.observe([make.attempt(listening)])
    (agent,) = prober.agents._agents.values()
    asking, other = prober.asking(), prober.asking()
    asking.begin([make.attempt(silent, kind=Kind.UDP, give_up=30.0)] * 50)
    other.begin([make.attempt(silent, kind=Kind.UDP, give_up=0.5)])
    asking.cancel()
    (answered,) = all_of(other)
    assert answered.observation
    assert answered.observation.verdict is Verdict.TIMED_OUT
    assert not agent.busy, "it was told to cancel, and has said that it did"
    assert agent.alive


def test_when_an_attempt_began_is_placed_on_the_suites_clock_as_surely_as_is_said(
    prober: Prober, make: Any, listening: int
) -> None:
    for _ in range(5):
        before = time.time()
        (seen,) = prober.observe([make.attempt(listening)])
        after = time.time()
        assert seen.began_at is not None
        assert seen.began_at_error is not None
        assert before - seen.began_at_error <= seen.began_at <= after + seen.began_at_error
    assert (seen.began_at_error or 0.0) < 0.1, "each answer tells more"


def test_an_attempt_that_names_too_little_is_refused_and_nothing_is_sent(
    prober: Prober, agents: Any, make: Any
) -> None:
    asking = prober.asking()
    with pytest.raises(ValueError, match="give_up_after"):
        asking.begin([make.attempt(80), make.attempt(80, give_up=0.0)])
    assert asking.pending == 0
    assert agents.started == []


@pytest.mark.usefixtures("agents")
def test_attempts_of_an_agent_that_died_are_carried_out_by_its_successor(
    kube: Kube, tmp_path: Path, make: Any, listening: int, silent: int
) -> None:
    # The attempts last long enough for this thread to end their agent under way, however slow the
    # machine is, and no agent is given up because it is silent meanwhile.
    timings = replace(QUICK, linux=replace(QUICK.linux, agent_silence=30.0))
    with contextlib.closing(Prober(kube, tmp_path / "run", Settings(timings=timings))) as prober:
        prober.observe([make.attempt(listening)])
        asking = prober.asking()
        asking.begin([make.attempt(silent, kind=Kind.UDP, give_up=3.0)])
        asking.begin([make.attempt(silent, kind=Kind.UDP, give_up=3.0)])
        prober.agents._agents[make.workload().uid, "agent.py"]._give_up("cut off by the test")
        observations = [answered.observation for answered in all_of(asking)]
    assert [(seen.verdict, seen.tries) for seen in observations if seen] == [
        (Verdict.TIMED_OUT, 2),
        (Verdict.TIMED_OUT, 2),
    ]
    assert prober.counts.repeated["w1", "linux"] == 2


def test_attempts_of_several_askings_wait_for_one_repair_of_their_agent(
    prober: Prober, agents: Any, api: Any, make: Any, silent: int
) -> None:
    quick = make.attempt(silent, kind=Kind.UDP, give_up=0.2)
    prober.observe([quick])
    askings = [prober.asking() for _ in range(3)]
    for asking in askings:
        asking.begin([quick])
    (agent,) = prober.agents._agents.values()
    agent._give_up("it was cut off by the test")
    found = [answered for asking in askings for answered in all_of(asking)]
    assert [answered.observation.tries for answered in found if answered.observation] == [2, 2, 2]
    assert len(agents.started) == 2
    looks = [request for request in api.requests if request.path.endswith("/pods/client")]
    assert len(looks) == 1, "the pod is looked at once"


def test_errors_are_told_per_attempt_and_what_others_saw_is_kept(
    prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    good, bad = make.workload("good"), make.workload("bad")
    prober.observe([make.attempt(listening, good)])

    def no_program(channel: Any, query: Any) -> None:
        channel.status(None, message='exec: "python3": executable file not found in $PATH')
        channel.close()

    agents.script = [no_program] * 5
    asking = prober.asking()
    of_good, of_bad = asking.begin([make.attempt(listening, good), make.attempt(listening, bad)])
    found = {answered.ticket: answered for answered in all_of(asking)}
    assert found[of_good].observation
    assert found[of_good].error is None
    assert found[of_bad].observation is None
    assert isinstance(found[of_bad].error, ProbeBroken)
    assert "executable file not found" in str(found[of_bad].error)


def test_a_pod_that_was_replaced_is_the_environments_fault(
    prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    agents.script = [lambda channel, _: channel.cut()] * 5
    agents.pods["client"] = {
        "metadata": {"uid": "other"},
        "spec": {},
        "status": {"phase": "Running"},
    }
    asking = prober.asking()
    asking.begin([make.attempt(listening)])
    (answered,) = all_of(asking)
    assert isinstance(answered.error, EnvironmentBroken)


def test_a_bug_in_carrying_out_attempts_is_heard_and_leaves_nobody_waiting(
    prober: Prober, monkeypatch: pytest.MonkeyPatch, make: Any, listening: int
) -> None:
    def bug(*_: Any) -> None:
        raise RuntimeError("a bug of the suite")

    monkeypatch.setattr(prober.agents, "agent", bug)
    with pytest.raises(RuntimeError, match="a bug of the suite"):
        prober.observe([make.attempt(listening)])


def test_an_agent_is_busy_only_while_attempts_are_under_way(
    prober: Prober, make: Any, listening: int, silent: int
) -> None:
    prober.observe([make.attempt(listening)])
    (agent,) = prober.agents._agents.values()
    assert not agent.busy
    asking = prober.asking()
    asking.begin([make.attempt(silent, kind=Kind.UDP, give_up=1.5)])
    assert agent.busy
    all_of(asking)
    assert not agent.busy


def test_no_more_attempts_are_under_way_than_half_of_what_an_agent_opens_at_once(
    prober: Prober, make: Any, listening: int, silent: int
) -> None:
    prober.observe([make.attempt(listening)])
    (agent,) = prober.agents._agents.values()
    agent._most = 2
    asking, attempt = prober.asking(), make.attempt(silent, kind=Kind.UDP, give_up=0.2)
    asking.begin([attempt] * 3)
    assert asking.waits(attempt.source.uid), "one of them has not left"
    asking.cancel()
    begun = time.monotonic()
    seen = prober.observe([make.attempt(silent, kind=Kind.UDP, give_up=0.2)] * 6)
    assert [observation.verdict for observation in seen] == [Verdict.TIMED_OUT] * 6
    assert time.monotonic() - begun >= 0.6, "three times two"
    assert len({observation.at for observation in seen}) == 3
    assert agent._under_way == 0
