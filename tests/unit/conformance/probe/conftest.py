# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the probe tests: a fake API server with scripted execs; ``tests/contract/prober`` has
real agents."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import OS, Addressing, Target, Workload
from conformance.probe.prober import Prober
from conformance.settings import Settings, load_timings
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.kube import fake_api

AGENT = Path(__file__).parents[4] / "manifests" / "probes" / "agent.py"
TIMINGS = load_timings()
QUICK = replace(
    TIMINGS,
    linux=replace(
        TIMINGS.linux, exec_overhead=5.0, agent_hello=5.0, agent_slot=15.0, agent_silence=2.0
    ),
    windows=replace(
        TIMINGS.windows, exec_overhead=5.0, agent_hello=5.0, agent_slot=15.0, agent_silence=2.0
    ),
    run=replace(TIMINGS.run, api_connect=2.0, api_answer=2.0, api_retry=0.0),
)


def workload(name: str = "client", os: OS = "linux", node: str = "w1", **more: Any) -> Workload:
    agent = {"namespace": "n", "container": "agent", "role": f"{os}-client", "address": "10.0.0.9"}
    return a_workload(name, os, node=node, **(agent | more))


def attempt(
    port: int, source: Workload | None = None, kind: Kind = Kind.TCP, give_up: float = 1.0
) -> Attempt:
    target = Target(host="127.0.0.1", port=port, protocol="tcp", path=Addressing.POD_IP)
    return Attempt(source=source or workload(), kind=kind, give_up_after=give_up, target=target)


class Agents:
    """The execs of the fake API; ``script`` defines the next execs."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self.started: list[dict[str, list[str]]] = []
        self.script: list[Callable[[Any, dict[str, list[str]]], None]] = []
        self.pods: dict[str, dict[str, Any]] = {}
        api.exec = self.serve
        api.routes["GET /api/v1/namespaces/n/pods/.*"] = self.pod
        api.routes["GET /api/v1/nodes/.*"] = lambda request: (
            200,
            {"metadata": {"name": request.path}, "spec": {}},
        )

    def pod(self, request: Any) -> Any:
        name = request.path.rpartition("/")[2]
        as_it_was = {
            "metadata": {"name": name, "namespace": "n", "uid": f"uid-{name}"},
            "spec": {"nodeName": "w1"},
            "status": {
                "phase": "Running",
                "containerStatuses": [{"name": "agent", "restartCount": 0}],
            },
        }
        return 200, self.pods.get(name, as_it_was)

    def serve(self, channel: Any, query: dict[str, list[str]]) -> None:
        self.started.append(query)
        (self.script.pop(0) if self.script else self.otherwise)(channel, query)

    def otherwise(self, channel: Any, query: dict[str, list[str]]) -> None:
        """Serve an exec for which there is no script."""
        channel.status(None, message=f"the test scripts no exec of {query['command']}")
        channel.close()


@pytest.fixture
def api() -> Iterator[Any]:
    """Provide a running fake API server."""
    server = fake_api.FakeApi()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def kube(api: Any, tmp_path: Path) -> Iterator[Kube]:
    """Provide a client of the fake API server."""
    client = Kube(from_kubeconfig(fake_api.kubeconfig(tmp_path / "kubeconfig", api.url)), QUICK.run)
    yield client
    client.close()


@pytest.fixture
def agents(api: Any) -> Agents:
    """Return the execs of the fake API server."""
    return Agents(api)


@pytest.fixture
def prober(kube: Kube, agents: Agents, tmp_path: Path) -> Iterator[Prober]:
    """Provide a prober over the fake API server."""
    one = Prober(kube, tmp_path / "run", Settings(timings=QUICK))
    yield one
    one.close()


@pytest.fixture
def make() -> Any:
    """Return a builder of workloads and attempts."""

    class Make:
        workload = staticmethod(workload)
        attempt = staticmethod(attempt)
        settings = Settings(timings=QUICK)
        agent = AGENT

    return Make


@pytest.fixture
def listening() -> Iterator[int]:
    """Provide a port of this machine that accepts connections."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen(64)
        yield one.getsockname()[1]


@pytest.fixture
def closed() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def fakes_status() -> Any:
    """Return a function that builds a refusal of the fake API server."""
    return fake_api.status
