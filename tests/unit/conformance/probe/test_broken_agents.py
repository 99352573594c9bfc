# SPDX-License-Identifier: Apache-2.0
"""No break of an agent becomes a verdict: each is named. Temporary breaks are in
``tests/contract/prober``."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, MissingCapability, ProbeBroken
from conformance.probe.asking import Inbox, Pending
from conformance.probe.prober import Prober
from tests.unit.conformance.probe.broken_execs import BREAKS, killed, missing_binary


@pytest.mark.parametrize(("way", "named"), BREAKS, ids=lambda one: getattr(one, "__name__", ""))
def test_whatever_breaks_is_named_and_is_never_a_verdict(
    *, way: Any, named: str, prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    quick = replace(make.settings.timings.linux, exec_overhead=0.15, agent_hello=0.15)
    prober.agents.settings = replace(
        make.settings, timings=replace(make.settings.timings, linux=quick)
    )
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
    with pytest.raises(ProbeBroken, match=r"status 137.*not restarted again after 2 restarts"):
        prober.observe([make.attempt(listening)])
    assert len(agents.started) == 3
    assert prober.counts.restarts[("w1", "linux")] == 2


def test_a_refused_exec_with_no_hope_is_not_repeated(
    *, prober: Prober, api: Any, agents: Any, make: Any, listening: int, fakes_status: Any
) -> None:
    api.exec_refusal = fakes_status(403, "Forbidden", "no exec for you")
    with pytest.raises(ProbeBroken, match="no exec for you"):
        prober.observe([make.attempt(listening)])
    assert sum(request.path.endswith("/exec") for request in api.requests) == 1


def test_when_not_even_the_pod_can_be_looked_at_the_probe_is_broken_and_both_are_told(
    *, prober: Prober, agents: Any, make: Any, api: Any, listening: int, fakes_status: Any
) -> None:
    agents.script = [lambda channel, _: missing_binary(channel, make)]
    api.routes["GET /api/v1/namespaces/n/pods/.*"] = fakes_status(
        500, "InternalError", "etcd is away"
    )
    with pytest.raises(
        ProbeBroken,
        match=r"executable file not found.*whether the pod changed is not known.*etcd is away",
    ):
        prober.observe([make.attempt(listening)])


def pending_of(make: Any, *errors: str, begun: float = 0.0, **fields: Any) -> Pending:
    """An attempt that began so many seconds ago and was tried once for each error."""
    return Pending(
        ticket=fields.pop("ticket", 1),
        attempt=make.attempt(80),
        spec={},
        inbox=Inbox(),
        begun=time.monotonic() - begun,
        tries=len(errors),
        errors=[*errors],
        **fields,
    )


def end_of(pending: Pending) -> Exception | None:
    """The error that an attempt ended with; None: it has not ended."""
    inbox = pending.inbox.arrived
    return None if inbox.empty() else inbox.get()[0].error


@pytest.mark.parametrize(
    ("trouble", "fields", "end"),
    [
        pytest.param(None, {}, "", id="it may pass"),
        pytest.param(
            None, {"hopeless": True}, "ProbeBroken: second (2 tries in 0 s)", id="it may not"
        ),
        pytest.param(None, {"begun": 60.0}, "ProbeBroken: second (2 tries in 60 s)", id="too long"),
        pytest.param(
            EnvironmentBroken("the pod was replaced\nmore"),
            {},
            "EnvironmentBroken: the pod was replaced, while it was probing (second)",
            id="the pod changed",
        ),
        pytest.param(
            MissingCapability("node w1 is gone", "-"),
            {},
            "MissingCapability: node w1 is gone; -",
            id="no node",
        ),
    ],
)
def test_an_attempt_is_tried_again_only_as_long_as_that_may_help(
    *,
    prober: Prober,
    make: Any,
    monkeypatch: pytest.MonkeyPatch,
    trouble: Any,
    fields: Any,
    end: str,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(
        "conformance.probe.agents.SYSTEM_CLOCK", SimpleNamespace(sleep=pauses.append)
    )
    monkeypatch.setattr(prober.agents, "trouble", lambda workloads: trouble)
    broken, fresh = pending_of(make, "first", "second", **fields), pending_of(make)
    left = prober.agents._after_errors(make.workload(), [fresh, broken])
    assert left == ([fresh] if end else [broken, fresh]), "broken attempts come first"
    error = end_of(broken)
    assert (f"{type(error).__name__}: {error}" if error else "") == end
    assert end_of(fresh) is None
    again = 0 if end else 1
    assert (len(pauses), prober.counts.repeated["w1", "linux"]) == (again, again)


@pytest.mark.parametrize(
    ("tries", "pause"), [((1,), 0.25), ((2,), 0.5), ((1, 3), 1.0), ((4,), 2.0), ((9,), 2.0)]
)
def test_each_try_doubles_the_pause_up_to_two_seconds(
    *,
    prober: Prober,
    make: Any,
    monkeypatch: pytest.MonkeyPatch,
    tries: tuple[int, ...],
    pause: float,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(
        "conformance.probe.agents.SYSTEM_CLOCK", SimpleNamespace(sleep=pauses.append)
    )
    monkeypatch.setattr(prober.agents, "trouble", lambda workloads: None)
    broken = [pending_of(make, *["cut"] * count) for count in tries]
    assert prober.agents._after_errors(make.workload(), broken) == broken
    assert pauses == [pause], "one pause for all attempts of a pod"


def test_that_a_pod_could_not_be_read_is_added_to_the_newest_error_alone(
    *, prober: Prober, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(workloads: Any) -> None:
        raise ProbeBroken("etcd is away")

    monkeypatch.setattr(prober.agents, "trouble", refuse)
    broken = pending_of(make, "first", "second", hopeless=True)
    assert prober.agents._after_errors(make.workload(), [broken]) == []
    unknown = "whether the pod changed is not known: etcd is away"
    assert broken.errors == ["first", f"second; {unknown}"]


def test_attempts_without_an_error_wait_for_nothing(prober: Prober, make: Any) -> None:
    fresh = [pending_of(make), pending_of(make)]
    assert prober.agents._after_errors(make.workload(), fresh) == fresh


@dataclass
class Live:
    """An agent that is alive, or was."""

    workload: Any
    alive: bool = True
    busy: bool = False
    got: list[int] = field(default_factory=list)

    def begin(self, attempts: list[Pending], within: float) -> bool:
        self.got += [pending.ticket for pending in attempts]
        return True

    def holds_back(self, inbox: Inbox) -> bool:
        return self.busy

    def close(self) -> None:
        """End."""


def test_each_pod_s_attempts_go_to_its_own_agent_and_the_others_wait_for_a_repair(
    prober: Prober, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = [make.workload(name) for name in ("a", "b", "c", "d")]
    agents: Any = prober.agents
    live = {pod.pod: Live(pod, alive=pod.pod != "c") for pod in pods[:3]}
    for pod in pods[:3]:
        agents._agents[pod.uid, "agent.py"] = live[pod.pod]
    waiting: list[list[int]] = []
    monkeypatch.setattr(
        agents, "_wait", lambda unsent: waiting.append([one.ticket for one in unsent])
    )
    agents.begin(
        replace(pending_of(make, ticket=ticket), attempt=make.attempt(80, pods[ticket % 4]))
        for ticket in range(8)
    )
    assert {name: agent.got for name, agent in live.items()} == {"a": [0, 4], "b": [1, 5], "c": []}
    assert waiting == [[2, 6], [3, 7]]
    assert agents.counts.attempts["w1", "linux"] == 4
    agents._agents.clear()


@pytest.mark.parametrize(
    ("repaired", "busy", "waits"),
    [
        ("", "", False),
        ("a", "", True),
        ("b", "", False),
        ("", "a", True),
        ("", "b", False),
    ],
)
def test_a_pod_s_attempts_wait_while_its_own_agent_is_in_repair_or_busy(
    *, prober: Prober, make: Any, repaired: str, busy: str, waits: bool
) -> None:
    agents: Any = prober.agents
    for name in ("a", "b"):
        agents._agents[name, "agent.py"] = Live(make.workload(name), busy=name == busy)
    if repaired:
        agents._waiting[repaired, "agent.py"] = []
    assert agents.waits("a", Inbox()) is waits
    agents._agents.clear()
