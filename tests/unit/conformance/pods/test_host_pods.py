# SPDX-License-Identifier: Apache-2.0
"""A host pod is created once per node and found again after it changed; if none may run, the
reason and a remedy are reported."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, MissingCapability
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.model.endpoint import Workload
from conformance.pods.deploy import Wish
from conformance.pods.host_pods import HostPods
from conformance.settings import Settings, load_timings
from tests.unit.conformance.builders import a_node, a_windows_node, a_workload

REFUSAL = (
    'pods "host-windows-host-1-x" is forbidden: violates PodSecurity "baseline:latest": hostProcess'
)


class Deployer:
    """Pods of one worker: keeps what was asked for, and what the cluster says about it."""

    host_namespace = "ns-host"

    def __init__(self, nodes: tuple[Any, ...]) -> None:
        self.facts = SimpleNamespace(
            nodes=nodes, by_os=lambda os: tuple(node for node in nodes if node.os == os)
        )
        self.settings = Settings(timings=load_timings(lab=True))
        self.log: list[str] = []
        self.there: dict[str, Any] = {}
        self.refusal = ""
        self.error: Exception | None = None
        self.passing = False
        """The error comes once."""
        self.kube = self
        self.changes = SimpleNamespace(waits=self)
        self.watch = SimpleNamespace(lost=lambda names: None)

    def start(self, wish: Wish) -> None:
        self.log.append(f"start {wish.called}")

    def deploy(self, wishes: list[Wish]) -> dict[str, Workload]:
        (wish,) = wishes
        self.log.append(f"deploy {wish.role} {wish.called} on {wish.node.name}")
        if self.error and (not self.passing or len(self.log) == 2):
            raise self.error
        uid = f"uid-{len(self.log)}"
        self.there[wish.called] = {
            "metadata": {"name": wish.called, "uid": uid}, "spec": {},
            "status": {"phase": "Running", "podIP": "10.0.0.9"},
        }  # fmt: skip
        pod = a_workload(
            wish.called,
            wish.node.os,
            namespace="ns-host",
            uid=uid,
            role=wish.role,
            node=wish.node.name,
            address="10.0.0.9",
            node_address="10.0.0.9",
        )
        return {wish.called: pod}

    def find(self, api: str, kind: str, name: str, namespace: str) -> Any:
        return self.there.get(name)

    def get(self, api: str, kind: str, name: str, namespace: str) -> Any:
        return {"metadata": {"name": name}}

    def events(self, obj: Any) -> list[Any]:
        return [{"reason": "FailedCreate", "message": REFUSAL}] if self.refusal else []

    def objects(self, api: str, kind: str, namespace: str, *, labels: str) -> list[Any]:
        return [] if self.refusal else [{}]


@pytest.fixture
def deployer() -> Deployer:
    return Deployer(
        (
            a_node("l1", "linux"),
            a_windows_node("w1", 20348),
            a_windows_node("w2", 17763),
        )
    )


def test_each_node_gets_one_pod_of_its_own_name(deployer: Any) -> None:
    pods = HostPods(deployer)
    assert pods.on("w2").pod == "host-windows-host-2"
    assert pods.on("l1").pod == "host-linux-node-1"
    assert pods.on("w2") is pods.on("w2")
    assert deployer.log == [
        "start host-windows-host-2", "deploy windows-host host-windows-host-2 on w2",
        "deploy linux-node host-linux-node-1 on l1",
    ]  # fmt: skip


def test_a_pod_that_changed_is_looked_for_again(deployer: Any) -> None:
    pods = HostPods(deployer)
    before = pods.on("w1")
    del deployer.there["host-windows-host-1"]
    assert pods.on("w1").uid != before.uid


def test_an_admission_that_refuses_them_is_told_with_its_words_and_a_remedy(deployer: Any) -> None:
    deployer.refusal = REFUSAL
    with pytest.raises(
        MissingCapability,
        match=r"no HostProcess pod runs on node w1: .*PodSecurity.*; allow HostProcess",
    ):
        HostPods(deployer).on("w1")


@pytest.mark.parametrize(
    "error",
    [
        EnvironmentBroken(
            "pod x: container host cannot start: no HostProcess containers here\n  event"
        ),
        ApiRefused(403, "Forbidden", "no", "x"),
    ],
    ids=["cannot start", "refused"],
)
def test_pods_that_cannot_run_are_a_lack(deployer: Any, error: Exception) -> None:
    deployer.error = error
    with pytest.raises(MissingCapability) as lack:
        HostPods(deployer).on("w1")
    assert "\n" not in str(lack.value)


@pytest.mark.parametrize(
    "error",
    [
        ApiRefused(500, "InternalError", "etcdserver: request timed out", "POST daemonsets"),
        EnvironmentBroken("0 of 1 pods ready after 360 s: pod x (w1): ContainerCreating"),
        ApiUnreachable("POST daemonsets", 3, 5.0, "timed out"),
    ],
    ids=["500", "not ready", "no answer"],
)
def test_a_request_that_failed_is_tried_again_and_then_trouble_without_advice(
    deployer: Any, error: Exception
) -> None:
    deployer.error = error
    with pytest.raises(
        EnvironmentBroken, match=r"no HostProcess pod runs on node w1: .*\(2 tries\)"
    ) as raised:
        HostPods(deployer).on("w1")
    assert "allow HostProcess" not in str(raised.value)
    assert [line.split()[0] for line in deployer.log] == ["start", "deploy"] * 2
    deployer.passing, deployer.log = True, []
    there = HostPods(deployer)
    assert there.on("w1").node == "w1"
    assert there.windows == ["w1"]


def test_a_node_that_gave_no_pod_in_time_is_asked_once(deployer: Any) -> None:
    deployer.error = EnvironmentBroken("DaemonSet ns-host/x has no pod after 60 s")
    host_pods = HostPods(deployer)
    for _ in range(2):
        with pytest.raises(
            EnvironmentBroken, match=r"no HostProcess pod runs on node w1: .*has no pod after 60 s"
        ):
            host_pods.on("w1")
    assert [line.split()[0] for line in deployer.log] == ["start", "deploy"]


def test_a_node_that_died_is_not_asked(deployer: Any) -> None:
    deployer.watch = SimpleNamespace(
        lost=lambda names: EnvironmentBroken(f"node {names[0]} was lost")
    )
    with pytest.raises(EnvironmentBroken, match="node w1 was lost"):
        HostPods(deployer).on("w1")
    assert deployer.log == []


def test_an_error_on_linux_is_raised_as_it_is(deployer: Any) -> None:
    deployer.error = EnvironmentBroken("no image")
    with pytest.raises(EnvironmentBroken):
        HostPods(deployer).on("l1")


@pytest.mark.parametrize("runtime", ["docker://20.10.9", "containerd://1.5.18"])
def test_docker_and_old_containerd_have_none(runtime: str) -> None:
    node = a_windows_node("w1", 17763, container_runtime=runtime)
    deployer: Any = Deployer((node,))
    with pytest.raises(
        MissingCapability, match=rf"node w1 runs {runtime}, which has no HostProcess pods"
    ):
        HostPods(deployer).on("w1")
    assert deployer.log == []
