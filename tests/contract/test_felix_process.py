# SPDX-License-Identifier: Apache-2.0
"""The judge's own commands about Felix' process, answered by the lab's PowerShell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from conformance.disrupt.felix_process import END, LIST, FelixProcess
from conformance.errors import ProbeBroken
from conformance.kube.channels import ExecBroken
from conformance.kube.execute import ExecResult
from tests.unit.hybridlab.powershell.test_host_cmdlets import KnownHost, powershell

READY = ["calico-node.exe", "-felix-ready"]
POD: dict[str, Any] = {
    "metadata": {"namespace": "calico-system", "name": "calico-node-windows-x"},
    "spec": {
        "containers": [
            {"name": "felix", "readinessProbe": {"exec": {"command": READY}}},
            {"name": "node"},
        ]
    },
}


def asked_of(host: KnownHost) -> FelixProcess:
    def run(pod: Any, container: str, argv: Sequence[str], change: str = "") -> ExecResult:
        assert container == "felix"
        if list(argv) == READY:
            return ExecResult(1, b"", b"felix is not ready", 0.1)
        code, out, err = powershell(argv[-1], host)
        return ExecResult(code, out.encode(), err.encode(), 0.1)

    return FelixProcess(run)


def test_it_is_seen_and_ended() -> None:
    host = KnownHost()
    assert asked_of(host).ids(POD) == {4084}
    assert host.done == []
    asked_of(host).end(POD)
    assert host.done == [("stop-process", {"id": 4084})]
    assert not asked_of(host).ready(POD)


@pytest.mark.parametrize(
    ("name", "command", "seen"),
    [
        ("calico.exe", "calico.exe component felix", {4084}),
        ("calico-node.exe", '"C:\\CalicoWindows\\calico-node.exe" -felix ', {4084}),
        ("calico-node.exe", "calico-node.exe -felix-ready", set()),
        ("calico-node.exe", "C:/hpc/CalicoWindows/calico-node.exe -felix-live", set()),
        ("calico.exe", "calico.exe component node health --felix-live", set()),
        ("calico.exe", "calico.exe component node health --felix-ready", set()),
        ("calico.exe", "calico.exe component node shutdown", set()),
        ("calico.exe", "C:/felix/calico.exe", set()),
        ("calico-node.exe", "calico-node.exe -startup", set()),
    ],
)
def test_only_felix_is_taken_for_felix(name: str, command: str, seen: set[int]) -> None:
    host = KnownHost()
    host.answers["processes"] = [{"Name": name, "ProcessId": 4084, "CommandLine": command}]
    assert asked_of(host).ids(POD) == seen


def test_a_probe_beside_it_is_neither_seen_nor_ended() -> None:
    host = KnownHost()
    probe = {
        "Name": "calico-node.exe",
        "ProcessId": 5120,
        "CommandLine": "calico-node.exe -felix-live",
    }
    host.answers["processes"].append(probe)
    assert asked_of(host).ids(POD) == {4084}
    asked_of(host).end(POD)
    assert host.done == [("stop-process", {"id": 4084})]


def test_a_pod_without_felix_container_and_a_failed_command_are_broken_probes() -> None:
    bare = {**POD, "spec": {"containers": [{"name": "calico-node"}]}}
    with pytest.raises(ProbeBroken, match="has no container felix"):
        asked_of(KnownHost()).ids(bare)
    host = KnownHost()
    host.answers["processes"][0]["ProcessId"] = 1
    with pytest.raises(ProbeBroken, match=r"cannot be ended: .*Cannot find a process"):
        asked_of(host).end(POD)


@pytest.mark.parametrize("asked", [True, False])
def test_a_command_that_was_cut_may_have_ended_it(asked: bool) -> None:
    def run(*_: Any, change: str = "") -> ExecResult:
        raise ExecBroken("the connection was cut", transport="cut", asked=asked)

    if asked:
        FelixProcess(run).end(POD)
    else:
        with pytest.raises(ExecBroken):
            FelixProcess(run).end(POD)


def test_the_scripts_survive_cmd() -> None:
    assert not [script for script in (LIST, END) if set(script) & set('"%\r\n')]
