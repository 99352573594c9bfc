# SPDX-License-Identifier: Apache-2.0
"""Streams between pods of a lab, through its API: what the judge observes at both ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from conformance.facts.detect import detect
from conformance.kube.access import from_kubeconfig
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import Ownership
from conformance.model.endpoint import Workload
from conformance.model.stream import Side, StreamState, StreamVerdict
from conformance.pods.deploy import Pods, Wish
from conformance.probe.prober import Prober
from conformance.probe.streams import NotOpened, Stream, Streams
from conformance.settings import Settings, load_timings
from conformance.timing import until
from tests.detection import runner

DIRECTIONS = [
    ("linux", "windows"),
    ("windows", "linux"),
    ("linux", "linux"),
    ("windows", "windows"),
]
OTHER: dict[str, Side] = {"client": "server", "server": "client"}
POLICY = {
    "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "any"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 9000}]}]},
}  # fmt: skip
pytestmark = pytest.mark.xdist_group("streams")


@dataclass
class Stage:
    """A lab with clients and servers of both systems."""

    lab: runner.Lab
    changes: Changes
    namespace: str
    streams: Streams
    pods: dict[str, Workload]

    def open(self, client: str, server: str) -> Stream:
        return self.streams.open([(self.pods[f"{client}-client"], self.pods[f"{server}-server"])])[
            0
        ]

    def until(self, stream: Stream, accept: Callable[[StreamState], bool]) -> StreamState:
        settled = until(
            lambda: self.streams.look([stream])[0],
            accept,
            within=20,
            every=0.05,
            description="it is as expected",
        )
        assert settled.converged, settled.last.words
        return settled.last


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder: Path = tmp_path_factory.mktemp("streams")
    with runner.lab(folder, (), "", profile="small") as lab:
        kube = Kube(from_kubeconfig(lab.kubeconfig))
        timings = load_timings(lab=True)
        quick: dict[str, Any] = {
            "stream_heartbeat": 0.05,
            "stream_stall": 0.5,
            "policy_effect": 1.0,
        }
        timings = replace(
            timings,
            linux=replace(timings.linux, **quick),
            windows=replace(timings.windows, **quick),
        )
        settings = Settings(timings=timings)
        facts = detect(kube, evidence="lab")
        changes = Changes(kube, Ownership("streams"))
        pods = Pods(kube, changes, facts, settings)
        nodes = {node.os: node for node in facts.nodes if "control" not in node.name}
        wishes = [
            Wish(role=f"{os}-{kind}", node=node)
            for os, node in nodes.items()
            for kind in ("client", "server")
        ]
        prober = Prober(kube, folder / "run", settings)
        streams = Streams(prober)
        yield Stage(lab, changes, pods.namespace, streams, pods.deploy(wishes))
        streams.shut()
        prober.close()
        kube.close()


@pytest.mark.parametrize(("client", "server"), DIRECTIONS)
def test_a_stream_survives_and_each_end_hears_the_other(
    stage: Stage, client: str, server: str
) -> None:
    stream = stage.open(client, server)
    state = stage.until(stream, lambda now: now.client.heard > 5 and now.server.heard > 5)
    assert not state.lost
    assert [event.what for event, _ in state.timeline] == ["opened", "opened"]
    opened = [event.at for event, _ in state.timeline]
    assert abs(opened[0] - opened[1]) < 1.0, "the agents' clocks were compared with the suite's"
    stage.streams.close([stream])


@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize(("client", "server"), DIRECTIONS)
def test_an_end_that_gives_up_resets_the_other(
    stage: Stage, client: str, server: str, side: Side
) -> None:
    stream = stage.open(client, server)
    assert stage.streams.abort(stream, side).verdict is StreamVerdict.ABORTED
    settled = until(
        lambda: stage.streams.look_at(stream, OTHER[side]).verdict,
        lambda now: now is StreamVerdict.RESET,
        within=10, every=0.05, description="the other end is told",
    )  # fmt: skip
    assert settled.converged, settled.last


@pytest.mark.parametrize(("client", "server"), DIRECTIONS[:2])
def test_silence_on_the_way_stalls_both_ends_and_its_end_lets_them_go_on(
    stage: Stage, client: str, server: str
) -> None:
    stream = stage.open(client, server)
    with stage.lab.faults(("udp4789-dropped scope=all",)):
        state = stage.until(
            stream,
            lambda now: (
                {end.verdict for end in now.ends} == {StreamVerdict.STALLED}
                and now.recovery_tries > 0
            ),
        )
        assert state.recovered_after is None
        with pytest.raises(NotOpened, match="TIMED_OUT"):
            stage.open(client, server)
    state = stage.until(stream, lambda now: not now.lost)
    assert [event.what for event in state.server.events] == ["opened", "stalled", "resumed"]
    stage.streams.close([stream])


@pytest.mark.parametrize(("client", "server"), DIRECTIONS[:2])
def test_reprogramming_resets_the_far_end_and_leaves_the_windows_end_in_silence(
    stage: Stage, client: str, server: str
) -> None:
    stream = stage.open(client, server)
    stage.changes.apply(POLICY, "a policy that allows the stream", namespace=stage.namespace)
    try:
        state = stage.until(
            stream,
            lambda now: all(end.lost for end in now.ends) and now.recovered_after is not None,
        )
    finally:
        stage.changes.kube.request(
            "DELETE", f"/apis/networking.k8s.io/v1/namespaces/{stage.namespace}/networkpolicies/any"
        )
    saw = {end.workload.os: end.verdict for end in state.ends}
    assert saw == {"linux": StreamVerdict.RESET, "windows": StreamVerdict.STALLED}
    stage.streams.close([stream])
