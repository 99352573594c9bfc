# SPDX-License-Identifier: Apache-2.0
"""Felix' process is found and ended inside its container; what was not read is no process."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.disrupt.felix_process import FelixProcess, ended, process_ids
from conformance.errors import ProbeBroken
from conformance.kube.channels import ExecBroken
from conformance.kube.execute import ExecResult


def done(stdout: bytes = b"", code: int = 0, stderr: bytes = b"") -> ExecResult:
    return ExecResult(exit_code=code, stdout=stdout, stderr=stderr, seconds=0.1)


@pytest.mark.parametrize(
    ("stdout", "ids"), [(b"", set()), (b"12\r\n34\r\n", {12, 34}), (b" 7 7\n", {7})]
)
def test_processes_are_the_numbers_that_are_printed(stdout: bytes, ids: set[int]) -> None:
    assert process_ids(done(stdout), "pod a/b") == ids


@pytest.mark.parametrize(
    "result", [done(b"12", 1), done(b"12 Get-CimInstance"), done(b"-1"), done(b"\xff")]
)
def test_anything_else_is_no_list_of_processes(result: ExecResult) -> None:
    with pytest.raises(ProbeBroken, match="the processes of pod a/b cannot be listed: "):
        process_ids(result, "pod a/b")


def cut(asked: bool) -> ExecBroken:
    return ExecBroken("cut", transport="-", asked=asked)


def test_a_command_that_was_cut_off_may_have_ended_felix() -> None:
    def broken(asked: bool) -> Any:
        raise cut(asked)

    assert ended(done) == done()
    assert ended(lambda: broken(True)) is None
    with pytest.raises(ExecBroken):
        ended(lambda: broken(False))


class Pod:
    """A pod with these containers, in which commands have this result."""

    def __init__(self, *names: str, result: ExecResult | ExecBroken, probe: Any = None) -> None:
        self.ran: list[tuple[str, str, str]] = []
        self.result = result
        containers = [
            {"name": name} | ({"readinessProbe": probe} if probe else {}) for name in names
        ]
        meta = {"namespace": "calico-system", "name": "calico-node-windows-a"}
        self.pod = {"metadata": meta, "spec": {"containers": containers}}
        self.process = FelixProcess(self.run)

    def run(self, pod: Any, container: str, argv: tuple[str, ...], change: str = "") -> ExecResult:
        self.ran.append((container, argv[-1], change))
        if isinstance(self.result, ExecBroken):
            raise self.result
        return self.result


WHERE = "pod calico-system/calico-node-windows-a"


@pytest.mark.parametrize(
    ("names", "container"),
    [
        (("node", "felix"), "felix"),
        (("calico-node-felix", "calico-node-startup"), "calico-node-felix"),
    ],
)
def test_felix_is_in_the_container_of_the_operator_or_of_the_manifests(
    names: tuple[str, ...], container: str
) -> None:
    pod = Pod(*names, result=done(b"12"))
    assert pod.process.ids(pod.pod) == {12}
    assert pod.ran[0][0] == container


def test_a_pod_without_such_a_container_is_told() -> None:
    pod = Pod("node", result=done())
    with pytest.raises(ProbeBroken, match=f"{WHERE} has no container felix or calico-node-felix"):
        pod.process.ids(pod.pod)


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (done(b"12"), ""),
        (cut(asked=True), ""),
        (done(b"denied", 5), f"Felix in {WHERE} cannot be ended: denied"),
    ],
)
def test_ending_is_a_change_and_fails_only_if_the_command_says_so(
    result: ExecResult | ExecBroken, problem: str
) -> None:
    pod = Pod("felix", result=result)
    if problem:
        with pytest.raises(ProbeBroken, match=problem):
            pod.process.end(pod.pod)
    else:
        pod.process.end(pod.pod)
    ((_, script, change),) = pod.ran
    assert change == f"end the process of Felix in {WHERE}"
    assert "Stop-Process" in script


@pytest.mark.parametrize(
    ("probe", "code", "ready", "asked"),
    [
        (None, 1, True, False),
        ({"httpGet": {}}, 1, True, False),
        ({"exec": {"command": ["calico-node.exe", "-felix-ready"]}}, 0, True, True),
        ({"exec": {"command": ["calico-node.exe", "-felix-ready"]}}, 1, False, True),
    ],
)
def test_felix_is_ready_by_the_command_of_its_own_probe(
    *, probe: Any, code: int, ready: bool, asked: bool
) -> None:
    pod = Pod("felix", result=done(code=code), probe=probe)
    assert pod.process.ready(pod.pod) is ready
    assert pod.ran == ([("felix", "-felix-ready", "")] if asked else [])
