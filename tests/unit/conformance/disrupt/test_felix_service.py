# SPDX-License-Identifier: Apache-2.0
"""Felix as a service of Windows hosts: it is restarted from a HostProcess pod, and back when another process runs."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.disrupt.felix import Felix
from conformance.disrupt.felix_service import FelixService, may_be_service
from conformance.errors import EnvironmentBroken, MissingCapability, ProbeBroken
from conformance.kube.execute import ExecResult
from conformance.model.facts import Fact

NODE = "w9"
"""A Windows node without a pod of Calico's."""


class Host:
    """A host whose Felix is process 4068, and another one after each restart."""

    def __init__(self, *, restarts: bool = True, there: bool = True, service: bool = True) -> None:
        self.process, self.restarts, self.there, self.service = 4068, restarts, there, service
        self.ran: list[str] = []

    def run(self, node: str, argv: Sequence[str], change: str = "") -> ExecResult:
        script = argv[-1]
        self.ran.append(script)
        if "Restart-Service" not in script:
            return result(f"{self.process}\r\n" if self.there else "")
        if not self.service:
            return result(
                "NoServiceFoundForGivenName,Microsoft.PowerShell.Commands.RestartServiceCommand", 1
            )
        self.process += 68 if self.restarts else 0
        return result("")


def result(said: str, code: int = 0) -> ExecResult:
    return ExecResult(exit_code=code, stdout=said.encode(), stderr=b"", seconds=0.1)


def felix(cluster: Any, patience: Any, clock: Any, host: Host | None) -> Felix:
    services = FelixService(host.run) if host else None
    return Felix(
        cluster,
        cluster,
        lambda node: "windows",
        lambda os: patience,
        services=services,
        clock=clock,
    )


def test_the_service_is_restarted_and_another_process_awaited(
    cluster: Any, patience: Any, clock: Any
) -> None:
    host = Host()
    (done,) = felix(cluster, patience, clock, host).restart_each([NODE])
    assert (done.before, done.after) == (
        f"service on {NODE}, process 4068",
        f"service on {NODE}, process 4136",
    )
    assert "$ErrorActionPreference = 'Stop'; Restart-Service -Name CalicoFelix -Force" in host.ran
    assert not [script for script in host.ran if set(script) & set('"%\n')], (
        "HostProcess containers run by cmd /c"
    )
    assert (cluster.log, cluster.noted) == ([], [])


def test_a_service_that_does_not_come_back_stays_noted(
    cluster: Any, patience: Any, clock: Any
) -> None:
    with pytest.raises(
        EnvironmentBroken, match=f"Felix on node {NODE}  expected a new process within 20 s of its"
    ):
        felix(cluster, patience, clock, Host(restarts=False)).restart_each([NODE])
    assert cluster.noted == [f"felix-restart {{'node': '{NODE}'}}"]


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (Host(there=False), "no process of Felix runs on the host"),
        (Host(service=False), "there is no service CalicoFelix"),
    ],
    ids=["no-process", "no-service"],
)
def test_a_host_without_it_lacks_it(
    cluster: Any, patience: Any, clock: Any, host: Host, words: str
) -> None:
    with pytest.raises(MissingCapability, match=words):
        felix(cluster, patience, clock, host).restart_each([NODE])
    assert cluster.noted == []


def test_a_process_that_nothing_would_start_again_is_left_alone() -> None:
    host = Host()
    with pytest.raises(MissingCapability, match=r"would not restart it \(rancher/rke2#9324\)"):
        FelixService(host.run, by_agent=True).end(NODE)
    assert host.ran == []


def test_a_command_that_fails_otherwise_is_a_broken_probe() -> None:
    with pytest.raises(
        ProbeBroken,
        match=f"service CalicoFelix of node {NODE} cannot be restarted: Access is denied",
    ):
        FelixService(lambda *_, **__: result("Access is denied", 1)).end(NODE)


def test_a_node_with_pods_of_calico_keeps_to_them(cluster: Any, patience: Any, clock: Any) -> None:
    host = Host()
    felix(cluster, patience, clock, host).restart_each(["w1"])
    assert (cluster.log, host.ran) == (["delete felix-w"], [])


def test_a_restart_whose_end_nobody_saw_is_waited_for(
    cluster: Any, patience: Any, clock: Any
) -> None:
    felix(cluster, patience, clock, Host()).back(NODE)
    with pytest.raises(
        EnvironmentBroken, match="is not back within 20 s: no process of Felix runs"
    ):
        felix(cluster, patience, clock, Host(there=False)).back(NODE)


@pytest.mark.parametrize(
    ("install", "may"), [("operator", False), ("manifest", False), ("manual", True), (None, True)]
)
def test_it_may_be_a_service_where_no_daemonset_brought_it(install: Any, may: bool) -> None:
    facts: Any = SimpleNamespace(install=Fact(install, "a test"))
    assert may_be_service(facts) is may
