# SPDX-License-Identifier: Apache-2.0
"""Pods start and end: a refusal, a next pod without a network, and neither of them, each on its
own node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, MissingCapability
from conformance.expect.context import Context, Sink
from conformance.expect.subjects import pod_churn
from conformance.expect.subjects.pod_churn import PodChurn
from conformance.model.endpoint import Pair
from conformance.model.facts import Fact
from conformance.pods.groups import Group
from tests.unit.conformance.builders import a_pod, a_windows_node, a_workload, some_facts

NOT_MADE = 'failed to setup network for sandbox "ab": plugin type="calico" failed (add): no HNS'


class Known:
    def __init__(self) -> None:
        self.asked: list[tuple[Sequence[Pair], Sequence[Pair]]] = []

    def paths_may_fail(
        self, paths: Sequence[Pair], *, beside: Sequence[Pair], because: str
    ) -> None:
        self.asked.append((paths, beside))


def churn(
    sink: Sink,
    known: Any,
    newcomers: Any = None,
    events: Sequence[Any] = (),
    room: Mapping[str, int] = MappingProxyType({}),
) -> PodChurn:
    late = a_pod("next", "w1", namespace="ns", status={"phase": "Pending"})
    waits = SimpleNamespace(events=lambda pod: list(events))
    pods: Any = SimpleNamespace(
        namespace="ns",
        facts=some_facts(a_windows_node("w1"), a_windows_node("w2")),
        prepare=lambda namespace: None,
        kube=SimpleNamespace(objects=lambda *_: [late]),
        changes=SimpleNamespace(waits=waits),
    )
    expect: Any = SimpleNamespace(context=Context(claims=("XLC-2",), sink=sink))
    return PodChurn(expect, pods, newcomers, known, room)


def decided(sink: Sink) -> list[str]:
    return [str(one.verdict) for one in sink.decisions]


SERVERS = Group(a_workload(f"server-{node}", "windows", node=node) for node in ("w1", "w2"))
CLIENT = a_workload("client")
NAME = CLIENT.tcp(80)
NOTHING = Fact[bool](False, "HNS")


class Pause:
    """Pause pods of which those of one node may be refused."""

    came: list[str] = []  # noqa: RUF012
    refused_on = ""

    def __init__(self, pods: Any, name: str) -> None:
        self.name = name

    def come(self, node: Any, count: int) -> tuple[list[str], str]:
        self.came.append(f"{count} {self.name}")
        return [], "timeout acquiring mutex" if node.name == self.refused_on else ""

    def remove(self) -> None:
        self.came.append(f"removed {self.name}")


@pytest.fixture
def pause(monkeypatch: pytest.MonkeyPatch) -> type[Pause]:
    monkeypatch.setattr(Pause, "came", [])
    monkeypatch.setattr(Pause, "refused_on", "")
    monkeypatch.setattr(pod_churn, "PausePods", Pause)
    return Pause


def next_pods(servers: Group) -> Group:
    return Group(a_workload(f"next-{one.node}", "windows", node=one.node) for one in servers)


GIVEN: Any = {"client": CLIENT, "name": NAME, "because": "it may"}


def test_each_node_is_decided_by_its_own_pods(pause: type[Pause]) -> None:
    pause.refused_on = "w2"
    sink = Sink()
    newcomers = SimpleNamespace(twins=next_pods)
    known = Known()
    made = churn(sink, known, newcomers)
    made.may_leave_traces(SERVERS, left=lambda node: NOTHING, **GIVEN)
    assert decided(sink) == ["NOT_OBSERVED", "CONFIRMED"]
    assert sink.decisions[1].reason == "timeout acquiring mutex"
    assert (pause.came.count("10 churn-w1"), pause.came.count("10 churn-w2")) == (2, 1)
    assert pause.came.count("removed churn-w2") == 1
    (paths, beside), *_ = known.asked
    (new,) = next_pods(Group(SERVERS[:1]))
    assert [target for source, target in paths if source == CLIENT] == [new.tcp(8080)]
    assert [source.node for source, target in paths if target == NAME] == ["w1"]
    assert len(beside) == 4


def test_an_endpoint_that_is_left_is_the_issue_on_its_node(pause: type[Pause]) -> None:
    sink = Sink()
    left = {"w1": Fact[bool](True, "an endpoint of nobody"), "w2": NOTHING}
    newcomers = SimpleNamespace(twins=next_pods)
    churn(sink, Known(), newcomers).may_leave_traces(SERVERS, left=left.__getitem__, **GIVEN)
    assert decided(sink) == ["CONFIRMED", "NOT_OBSERVED"]
    assert sink.decisions[0].reason == "an endpoint of nobody"


def test_a_next_pod_that_gets_no_network_is_the_issue_and_another_reason_is_not(
    pause: type[Pause],
) -> None:
    def twins(servers: Group) -> Group:
        raise EnvironmentBroken("pod ns/next (w1): ContainerCreating after 5 s")

    known, sink = Known(), Sink()
    event = {"reason": "FailedCreatePodSandBox", "message": NOT_MADE}
    newcomers = SimpleNamespace(twins=twins)
    first = Group(SERVERS[:1])
    made = churn(sink, known, newcomers, [event])
    made.may_leave_traces(first, left=lambda node: NOTHING, **GIVEN)
    assert (decided(sink), known.asked) == (["CONFIRMED"], [])
    made = churn(sink, known, newcomers)
    with pytest.raises(EnvironmentBroken):
        made.may_leave_traces(first, left=lambda node: NOTHING, **GIVEN)
    assert decided(sink) == ["CONFIRMED", "INCONCLUSIVE"]


def test_no_pods_come_to_a_node_that_would_have_little_room_left(pause: type[Pause]) -> None:
    churned = churn(Sink(), Known(), room={"w1": 15, "w2": 14})
    with pytest.raises(
        MissingCapability, match="node w2 has room for 14 more pods; 10 test pods would leave"
    ):
        churned.may_leave_traces(
            SERVERS, client=CLIENT, name=NAME, left=lambda node: NOTHING, because="x"
        )
    assert pause.came == []
