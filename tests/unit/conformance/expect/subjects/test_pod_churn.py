# SPDX-License-Identifier: Apache-2.0
"""Pods come and go; a refusal, a next pod without network, and neither, each on its own node."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.expect.context import Context, Sink
from conformance.expect.subjects import pod_churn
from conformance.expect.subjects.pod_churn import PodChurn
from conformance.model.endpoint import Pair
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


def churn(sink: Sink, known: Any, newcomers: Any = None, events: Sequence[Any] = ()) -> PodChurn:
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
    return PodChurn(expect, pods, newcomers, known)


def decided(sink: Sink) -> list[str]:
    return [str(one.verdict) for one in sink.decisions]


def test_each_node_is_decided_by_its_own_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[str] = []

    class Pause:
        def __init__(self, pods: Any, name: str) -> None:
            self.name = name

        def come(self, node: Any, count: int) -> tuple[list[str], str]:
            came.append(f"{count} {self.name}")
            words = "timeout acquiring mutex" if node.name == "w2" else ""
            return [], words

        def remove(self) -> None:
            came.append(f"removed {self.name}")

    monkeypatch.setattr(pod_churn, "PausePods", Pause)
    sink = Sink()
    churn(sink, None).may_be_refused(["w1", "w2"], times=2, because="it may")
    assert decided(sink) == ["NOT_OBSERVED", "CONFIRMED"]
    assert sink.decisions[1].reason == "timeout acquiring mutex"
    assert (came.count("10 churn-w1"), came.count("10 churn-w2")) == (2, 1)
    assert came.count("removed churn-w2") == 1


SERVER = a_workload("server", "windows", node="w1")
CLIENT = a_workload("client")
NAME = CLIENT.tcp(80)


def test_the_next_pod_is_asked_both_ways_beside_the_server_that_is_there() -> None:
    known, sink = Known(), Sink()
    new = a_workload("next", "windows", node="w1")
    newcomers = SimpleNamespace(twins=lambda servers: Group([new]))
    churn(sink, known, newcomers).next_may_fail(
        Group([SERVER]), client=CLIENT, name=NAME, because="it may"
    )
    both = [[(CLIENT, pod.tcp(8080)), (pod, NAME)] for pod in (new, SERVER)]
    assert known.asked == [(both[0], both[1])]
    assert decided(sink) == ["NOT_OBSERVED"]


def test_a_next_pod_that_gets_no_network_is_the_issue_and_another_reason_is_not() -> None:
    def twins(servers: Group) -> Group:
        raise EnvironmentBroken("pod ns/next (w1): ContainerCreating after 5 s")

    known, sink = Known(), Sink()
    event = {"reason": "FailedCreatePodSandBox", "message": NOT_MADE}
    given: Any = {"client": CLIENT, "name": NAME, "because": "it may"}
    newcomers = SimpleNamespace(twins=twins)
    churn(sink, known, newcomers, [event]).next_may_fail(Group([SERVER]), **given)
    assert (decided(sink), known.asked) == (["CONFIRMED"], [])
    with pytest.raises(EnvironmentBroken):
        churn(sink, known, newcomers).next_may_fail(Group([SERVER]), **given)
    assert decided(sink) == ["CONFIRMED", "INCONCLUSIVE"]
