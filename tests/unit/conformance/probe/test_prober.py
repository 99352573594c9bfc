"""Observing gives one observation per attempt, or says what broke; no way of breaking ever becomes a verdict."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, MissingCapability, ProbeBroken
from conformance.kube.transcript import ExecRecord
from conformance.model.observation import Verdict
from conformance.probe import protocol
from conformance.probe.prober import Limits, Prober


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen(64)
        yield one.getsockname()[1]


@pytest.fixture
def closed() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_observations_come_in_the_order_of_the_batch_from_all_sources(
    prober: Prober, agents: Any, make: Any, listening: int, closed: int
) -> None:
    sources = [make.workload(f"client-{number}") for number in range(3)]
    batch = [make.attempt(port, source) for port in (listening, closed) for source in sources]
    seen = prober.observe(batch)
    assert [observation.attempt for observation in seen] == batch
    assert [observation.verdict for observation in seen] == [Verdict.CONNECTED] * 3 + [Verdict.REFUSED] * 3
    assert len(agents.started) == 3


def test_an_agent_is_started_once_and_asked_again(prober: Prober, agents: Any, make: Any, listening: int) -> None:
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


def greet(channel: Any, make: Any, **change: Any) -> None:
    hello = {
        "type": "hello", "protocol": 2, "up_ms": 1, "open_limit": 4000, "program": "agent.py", "os": "linux",
        "sha256": hashlib.sha256(make.agent.read_bytes()).hexdigest(),
    }  # fmt: skip
    say(channel, hello | change)


def say(channel: Any, document: Any) -> None:
    channel.send(1, b"@@PROBE@@ " + json.dumps(document).encode() + b"\n")


def lost_status(channel: Any, make: Any) -> None:
    channel.close()


def nothing_at_all(channel: Any, make: Any) -> None:
    channel.status(0)
    channel.close()


def wrong_binary(channel: Any, make: Any) -> None:
    channel.send(1, b"BusyBox v1.37 multi-call binary\n")
    channel.status(0)
    channel.close()


def missing_binary(channel: Any, make: Any) -> None:
    channel.status(None, message='exec: "python3": executable file not found in $PATH')
    channel.close()


def no_container(channel: Any, make: Any) -> None:
    channel.status(None, message='unable to upgrade connection: container not found ("agent")')
    channel.close()


def stranger(channel: Any, make: Any) -> None:
    greet(channel, make, sha256="0" * 64)
    channel.receive()


def old_protocol(channel: Any, make: Any) -> None:
    greet(channel, make, protocol=0)
    channel.receive()


def never_says_hello(channel: Any, make: Any) -> None:
    channel.receive()


def cut_when_asked(channel: Any, make: Any) -> None:
    greet(channel, make)
    channel.receive()
    channel.cut()


def half_an_answer(channel: Any, make: Any) -> None:
    greet(channel, make)
    channel.receive()
    channel.send(1, b'@@PROBE@@ {"type":"results","batch":"b1","resu')
    channel.cut()


def garbled_answer(channel: Any, make: Any) -> None:
    greet(channel, make)
    channel.receive()
    channel.send(1, b'@@PROBE@@ {"type":"results",,}\n')
    channel.receive()


def empty_results(channel: Any, make: Any) -> None:
    greet(channel, make)
    channel.receive()
    say(channel, {"type": "results", "batch": "b1", "left": 0, "results": []})
    channel.receive()


def results_of_something_else(channel: Any, make: Any) -> None:
    greet(channel, make)
    channel.receive()
    say(channel, {"type": "results", "batch": "b1", "left": 0, "results": [{"id": 7, "verdict": "TIMED_OUT", "ms": 1}]})
    channel.receive()


def says_it_could_not_try(channel: Any, make: Any) -> None:
    greet(channel, make)
    while (frame := channel.receive()) is not None and b"batch" in frame[1]:
        batch = json.loads(frame[1])["batch"]
        broken = {"id": 0, "verdict": "BROKEN", "detail": "EMFILE"}
        say(channel, {"type": "results", "batch": batch, "left": 0, "results": [broken]})


def refuses_the_line(channel: Any, make: Any) -> None:
    greet(channel, make)
    channel.receive()
    say(channel, {"type": "error", "batch": "b1", "message": "kind 'tcp' is not known"})
    channel.receive()


def half_a_line(channel: Any, make: Any) -> None:
    channel.send(1, b'@@PROBE@@ {"type":"hel')
    channel.receive()


def killed(channel: Any, make: Any) -> None:
    greet(channel, make)
    channel.receive()
    channel.send(2, b"Killed")
    channel.status(137)
    channel.close()


BREAKS = [
    (lost_status, "the exit status never arrived"),
    (nothing_at_all, "another program answered in its place: it never said hello, and exited with status 0"),
    (half_a_line, 'its last line was cut short: \'@@PROBE@@ {"type":"hel'),
    (wrong_binary, "BusyBox"),
    (missing_binary, "executable file not found"),
    (stranger, "is not this suite's agent.py"),
    (old_protocol, "speaks protocol 0"),
    (never_says_hello, "did not say hello"),
    (cut_when_asked, "the connection was cut"),
    (half_an_answer, "the connection was cut"),
    (garbled_answer, "garbled line"),
    (empty_results, "does not match"),
    (results_of_something_else, "does not match"),
    (says_it_could_not_try, "EMFILE"),
    (refuses_the_line, "refused a batch"),
    (killed, "status 137"),
]


@pytest.mark.parametrize(("way", "named"), BREAKS, ids=lambda one: getattr(one, "__name__", ""))
def test_whatever_breaks_is_named_and_is_never_a_verdict(
    *, way: Any, named: str, prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    quick = replace(make.settings.timings.linux, exec_overhead=0.15, agent_hello=0.15)
    prober.agents.settings = replace(make.settings, timings=replace(make.settings.timings, linux=quick))
    agents.script = [lambda channel, _: way(channel, make)] * 50
    with pytest.raises(ProbeBroken) as caught:
        prober.observe([make.attempt(listening)])
    assert named in str(caught.value)
    assert "n/client (linux, node w1)" in str(caught.value)
    assert caught.value.transport


def test_an_agent_that_breaks_again_and_again_is_given_up_with_its_last_error(
    prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    prober.agents.limits = replace(prober.agents.limits, restarts=2)
    agents.script = [lambda channel, _: killed(channel, make)] * 50
    with pytest.raises(ProbeBroken, match=r"status 137.*not restarted any more after 2 restarts"):
        prober.observe([make.attempt(listening)])
    assert len(agents.started) == 3
    assert prober.counts.restarts[("w1", "linux")] == 2


def test_a_container_that_is_down_for_a_moment_is_asked_again(
    prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    agents.script = [lambda channel, _: no_container(channel, make)]
    assert prober.observe([make.attempt(listening)])[0].verdict is Verdict.CONNECTED
    assert len(agents.started) == 2


def test_what_the_others_saw_is_kept_when_one_source_breaks(
    prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    good, bad = make.workload("good"), make.workload("bad")
    prober.observe([make.attempt(listening, good)])
    agents.script = [lambda channel, _: missing_binary(channel, make)] * 50
    with pytest.raises(ProbeBroken) as caught:
        prober.observe([make.attempt(listening, good), make.attempt(listening, bad)])
    assert [observation.attempt.source for observation in caught.value.seen] == [good]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"metadata": {"uid": "other"}}, "was replaced by another of the same name"),
        ({"metadata": {"uid": "uid-client", "deletionTimestamp": "now"}}, "is being deleted"),
        ({"status": {"phase": "Failed"}}, "is Failed"),
        (
            {"status": {"phase": "Running", "containerStatuses": [
                {"name": "agent", "restartCount": 2,
                 "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]}},
            "restarted 2 times: agent: OOMKilled (137)",
        ),
    ],
)  # fmt: skip
def test_a_pod_that_changed_while_it_probed_is_the_environments_fault(
    *, change: dict[str, Any], named: str, prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    pod = {"metadata": {"uid": "uid-client"}, "spec": {"nodeName": "w2"}, "status": {"phase": "Running"}}
    agents.script = [lambda channel, _: cut_when_asked(channel, make)] * 50
    agents.pods["client"] = pod | change
    with pytest.raises(EnvironmentBroken) as caught:
        prober.observe([make.attempt(listening)])
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (None, "the cluster has no such node any more"),
        ({"metadata": {"deletionTimestamp": "now"}}, "it is being deleted"),
        (
            {"metadata": {}, "spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}},
            "the cluster autoscaler is removing it",
        ),
    ],
)
def test_a_pod_that_is_lost_with_its_node_is_no_error_but_what_the_cluster_lacks(
    *, node: Any, why: str, prober: Prober, api: Any, agents: Any, make: Any, listening: int, fakes_status: Any
) -> None:
    gone = fakes_status(404, "NotFound", "gone")
    api.routes["GET /api/v1/namespaces/n/pods/.*"] = gone
    api.routes["GET /api/v1/nodes/w1"] = (200, node) if node else gone
    api.routes["GET /api/v1/nodes/.*"] = api.routes.pop("GET /api/v1/nodes/.*")  # the last to be looked at
    agents.script = [lambda channel, _: cut_when_asked(channel, make)] * 50
    words = f"node w1 has gone away during the run: {why}; .*--nodes"
    with pytest.raises(MissingCapability, match=words):
        prober.observe([make.attempt(listening)])
    with pytest.raises(MissingCapability, match=words):
        prober.unchanged([make.workload()])


def test_pods_that_are_as_they_were_are_unchanged_and_a_lost_one_is_named(
    prober: Prober, agents: Any, make: Any, api: Any, fakes_status: Any
) -> None:
    prober.unchanged([make.workload()])
    api.routes["GET /api/v1/namespaces/n/pods/.*"] = fakes_status(404, "NotFound", "gone")
    with pytest.raises(EnvironmentBroken, match=r"n/client \(linux, node w1\) is gone"):
        prober.unchanged([make.workload()])


@pytest.fixture
def fakes_status() -> Any:
    return sys.modules["fake_api"].status


def test_a_refused_exec_with_no_hope_is_not_repeated(
    *, prober: Prober, api: Any, agents: Any, make: Any, listening: int, fakes_status: Any
) -> None:
    api.exec_refusal = fakes_status(403, "Forbidden", "no exec for you")
    with pytest.raises(ProbeBroken, match="no exec for you"):
        prober.observe([make.attempt(listening)])
    assert sum(request.path.endswith("/exec") for request in api.requests) == 1


def test_an_overloaded_api_server_is_asked_again(
    *, prober: Prober, api: Any, agents: Any, make: Any, listening: int, fakes_status: Any
) -> None:
    api.exec_refusal = fakes_status(429, "TooManyRequests", "slow down")
    threading.Timer(0.1, lambda: setattr(api, "exec_refusal", None)).start()
    assert prober.observe([make.attempt(listening)])[0].verdict is Verdict.CONNECTED


def test_live_agents_are_bounded_and_an_idle_one_makes_room(
    kube: Any, agents: Any, make: Any, listening: int, tmp_path: Path
) -> None:
    prober = Prober(kube, tmp_path / "run", make.settings, limits=Limits(agents=2))
    try:
        for number in range(4):
            prober.observe([make.attempt(listening, make.workload(f"client-{number}"))])
            assert len(prober.agents) <= 2
        assert len(agents.started) == 4
    finally:
        prober.close()


def test_idle_agents_of_one_process_leave_another_its_share(
    kube: Any, agents: Any, make: Any, listening: int, tmp_path: Path
) -> None:
    one, other = (Prober(kube, tmp_path / "run", make.settings, limits=Limits(agents=4, share=2)) for _ in range(2))
    try:
        for prober, name in ((one, "a"), (other, "b")):
            for number in range(4):
                prober.observe([make.attempt(listening, make.workload(f"{name}-{number}"))])
        assert (len(one.agents), len(other.agents)) == (2, 2)
    finally:
        one.close()
        other.close()


def test_live_agents_on_a_windows_node_are_bounded_for_all_processes(
    kube: Any, agents: Any, make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(protocol.AGENTS, "windows", protocol.AGENTS["linux"])  # the stand-in is agent.py
    limits = Limits(per_windows_node=3, share_of_node=1)
    prober, other = (Prober(kube, tmp_path / "run", make.settings, limits=limits) for _ in range(2))
    program = protocol.AGENTS["linux"]
    try:
        for number in range(4):
            prober.agent(make.workload(f"a-{number}", "windows", "win-1"), program)
            prober.agent(make.workload(f"l-{number}"), program)
        prober.agent(make.workload("a-5", "windows", "win-2"), program)
        assert len(prober.agents) == 6, "one on win-1, which is its share there, one on win-2, and those on Linux"
        taken = [other.agent(make.workload(f"b-{number}", "windows", "win-1"), program) for number in range(2)]
        assert taken[1].alive
        assert len(other.agents) == 1
    finally:
        prober.close()
        other.close()


def test_what_a_process_keeps_on_a_node_beyond_its_share_goes_when_another_waits(
    kube: Any, agents: Any, make: Any, tmp_path: Path
) -> None:
    wide = Limits(per_windows_node=2, share_of_node=2)
    narrow = Limits(per_windows_node=2, share_of_node=1)
    program = protocol.AGENTS["linux"]
    prober, other = (Prober(kube, tmp_path / "run", make.settings, limits=limits) for limits in (wide, narrow))
    try:
        for number in range(2):
            prober.agent(make.workload(f"a-{number}", "windows", "win-1"), program)
        prober.agents.limits = narrow
        assert other.agent(make.workload("b", "windows", "win-1"), program).alive
        assert (len(prober.agents), len(other.agents)) == (1, 1)
    finally:
        prober.close()
        other.close()


def test_more_sources_than_live_agents_are_asked_in_turns(
    kube: Any, agents: Any, make: Any, listening: int, tmp_path: Path
) -> None:
    prober = Prober(kube, tmp_path / "run", make.settings, limits=Limits(agents=2))
    try:
        seen = prober.observe([make.attempt(listening, make.workload(f"client-{number}")) for number in range(6)])
        assert [observation.verdict for observation in seen] == [Verdict.CONNECTED] * 6
        assert len(prober.agents) <= 2
    finally:
        prober.close()


def test_an_agent_for_which_no_slot_becomes_free_names_its_pod_and_what_to_do(
    kube: Any, agents: Any, make: Any, tmp_path: Path
) -> None:
    timings = make.settings.timings
    hasty = replace(make.settings, timings=replace(timings, linux=replace(timings.linux, agent_slot=0.2)))
    prober = Prober(kube, tmp_path / "run", hasty, limits=Limits(agents=1))
    source = make.workload("client-0")
    expected = rf"^no agent could be started in {re.escape(source.label)}: no slot agent .*; fewer workers"
    try:
        with prober.slots.hold("agent", 1, 1.0), pytest.raises(ProbeBroken, match=expected):
            prober.agent(source, protocol.AGENTS["linux"])
    finally:
        prober.close()


def test_waiting_for_other_starts_counts_as_no_error(
    kube: Any, agents: Any, make: Any, listening: int, tmp_path: Path
) -> None:
    patience = replace(make.settings.timings.linux, exec_overhead=0.5, agent_hello=1.5, agent_slot=15.0)
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
    prober, other = (Prober(kube, tmp_path / "run", make.settings, limits=Limits(agents=4, share=2)) for _ in range(2))
    try:
        prober.observe([make.attempt(listening, make.workload(f"a-{number}")) for number in range(4)])
        assert len(prober.agents) == 4, "it needed them at once, and nobody else did"
        assert not prober.slots.wanted("agent")
        seen = other.observe([make.attempt(listening, make.workload(f"b-{number}")) for number in range(2)])
        assert [found.verdict for found in seen] == [Verdict.CONNECTED] * 2
        assert (len(prober.agents), len(other.agents)) == (2, 2)
        assert other.counts.repeated.total() == prober.counts.repeated.total() == 0
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
    with pytest.raises(ProbeBroken, match=r"is not this suite's matrix-agent\.ps1"):  # the stand-in is agent.py
        prober.observe([make.attempt(listening, source) for source in sources])
    prober.close()
    assert most <= 2


def test_closing_ends_the_agents_and_gives_their_slots_back(
    kube: Any, agents: Any, make: Any, listening: int, tmp_path: Path
) -> None:
    records: list[ExecRecord] = []
    prober = Prober(kube, tmp_path / "run", make.settings, transcript=records.append)
    prober.observe([make.attempt(listening)])
    prober.close()
    assert [record.exit_code for record in records] == [0]
    assert {interval.name for interval in prober.slots.intervals} == {"agent", "python-w1"}


def test_when_not_even_the_pod_can_be_looked_at_the_probe_is_broken_and_both_are_told(
    *, prober: Prober, agents: Any, make: Any, api: Any, listening: int, fakes_status: Any
) -> None:
    agents.script = [lambda channel, _: missing_binary(channel, make)]
    api.routes["GET /api/v1/namespaces/n/pods/.*"] = fakes_status(500, "InternalError", "etcd is away")
    with pytest.raises(
        ProbeBroken, match=r"executable file not found.*whether the pod changed is not known.*etcd is away"
    ):
        prober.observe([make.attempt(listening)])
