# SPDX-License-Identifier: Apache-2.0
"""Each source address that a server receives is recorded by its owner; a failing node is noted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.calibrate import network
from conformance.calibrate.record import Record
from conformance.calibrate.scene import Scene
from conformance.errors import EnvironmentBroken, ProbeBroken
from conformance.model.attempt import Attempt, Kind
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_windows_node, a_workload

CLIENT = a_workload("near", node="n1", address="192.168.0.5", node_address="10.0.0.1")
FAR = a_workload("far", node="n2", address="192.168.1.5", node_address="10.0.0.2")
SERVER = a_workload("server", "windows", node="n1", address="192.168.0.9", node_address="10.0.0.3")
NAMES = {
    CLIENT.address: "own",
    CLIENT.node_address: "client's node",
    SERVER.node_address: "server's node",
    "172.16.0.1": "another",
    "": "TIMED_OUT",
}


class Prober:
    """Servers that receive the same source address, whatever the path."""

    def __init__(self, source: str) -> None:
        self.source = source

    def observe(self, attempts: Sequence[Attempt]) -> list[Observation]:
        verdict = Verdict.CONNECTED if self.source else Verdict.TIMED_OUT
        return [
            Observation(attempt=each, verdict=verdict, at=0.0, seconds=0.1, seen_client=self.source)
            for each in attempts
        ]


@pytest.mark.parametrize(("source", "name"), NAMES.items())
def test_a_source_is_named_by_whose_it_is_for_each_path_and_client(
    monkeypatch: pytest.MonkeyPatch, source: str, name: str
) -> None:
    made = SimpleNamespace(by_address=SERVER.tcp(80), on=lambda server: server.tcp(30080))
    monkeypatch.setattr(network, "service", lambda scene, name, server: made)
    waited: list[int] = []
    monkeypatch.setattr(network, "until_all", lambda scene, paths, **_: waited.append(len(paths)))
    record = Record()
    scene: Any = SimpleNamespace(
        servers=[SERVER],
        clients=[CLIENT, replace(FAR, address=CLIENT.address, node_address=CLIENT.node_address)],
        seat_of=lambda pod: pod.pod,
        prober=Prober(source),
        record=record,
    )
    network.sources(scene)
    assert waited == [6]
    assert {key: kept["values"] for key, kept in record.measurements.items()} == {
        (f"source-{path}/windows-{where}", node): [name]
        for path in ("pod", "cluster-ip", "node-port")
        for where, node in (("same-node", "n1"), ("other-node", "n2"))
    }


def test_sizes_that_pass_are_those_that_were_answered() -> None:
    class Narrow:
        def observe(self, attempts: Sequence[Attempt]) -> list[Observation]:
            return [
                Observation(
                    attempt=each,
                    verdict=Verdict.CONNECTED if each.payload + 28 <= 1450 else Verdict.PROHIBITED,
                    at=0.0,
                    seconds=0.1,
                )
                for each in attempts
            ]

    scene: Any = SimpleNamespace(prober=Narrow())
    attempt = network._try(CLIENT, Kind.UDP, SERVER, 7)
    assert network._passing(scene, attempt, [1449, 1450, 1451, 9000]) == [1449, 1450]
    assert network._passing(scene, attempt, range(1000, 1100)) == [*range(1000, 1040)]


def test_a_pod_on_another_node_is_picked_where_there_is_one() -> None:
    pods = [CLIENT, FAR, SERVER]
    assert Scene.pick(None, pods, "linux", CLIENT) is FAR  # type: ignore[arg-type]
    assert Scene.pick(None, pods, "linux") is CLIENT  # type: ignore[arg-type]
    assert Scene.pick(None, [CLIENT], "linux", CLIENT) is CLIENT  # type: ignore[arg-type]
    with pytest.raises(EnvironmentBroken, match="no pod of windows is ready"):
        Scene.pick(None, [CLIENT, FAR], "windows")  # type: ignore[arg-type]


def test_a_node_that_fails_is_noted_and_the_others_are_measured() -> None:
    done: list[str] = []

    def measure(place: Any) -> None:
        if place is FAR:
            raise ProbeBroken("no agent\nmore")
        done.append(place.node if place is CLIENT else place.name)

    scene: Any = SimpleNamespace(record=Record())
    Scene.each(scene, "mtu", [CLIENT, FAR, a_windows_node("w1")], measure)
    assert sorted(done) == ["n1", "w1"]
    assert scene.record.not_measured == [{"id": "mtu", "node": "n2", "why": "no agent"}]
    Scene.each(scene, "mtu", [], measure)
