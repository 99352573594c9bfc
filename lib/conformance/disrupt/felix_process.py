# SPDX-License-Identifier: Apache-2.0
"""Finds Felix' process on a Windows node and ends it inside its container; felix-service.ps1 then
starts a new process.

This restarts Felix and has no other effect. Deleting the pod would do more: its end removes the
node's CNI configuration (uninstall-calico-hpc.ps1), so that the node may turn NotReady. The new pod
would also need its image again.
"""

from collections.abc import Callable
from typing import Any, Protocol

from conformance.errors import ProbeBroken
from conformance.kube.channels import ExecBroken
from conformance.kube.client import Obj
from conformance.kube.execute import ExecResult
from conformance.kube.fields import value_at
from conformance.probe.host import POWERSHELL, STOP

CONTAINERS = ("felix", "calico-node-felix")
"""Names of Felix' container in the pods of the operator, of Calico's manifests, and of SIG-Windows'
DaemonSet."""
FIND = (
    STOP + "foreach ($name in 'calico-node.exe', 'calico.exe') { "
    "Get-CimInstance Win32_Process -Filter ('Name=''' + $name + '''') | "
    "Where-Object { $_.CommandLine -match '( -|component )felix *$' } | ForEach-Object { "
)
"""The command lines of Felix as felix-service.ps1 runs them: ``calico-node.exe -felix`` up to
v3.32, ``calico.exe component felix`` since then. The commands of its probes run every few seconds,
and their command lines end differently: ``calico-node.exe -felix-live``, ``calico.exe component
node health --felix-ready`` (tigera/operator, pkg/render/windows.go)."""
LIST = FIND + "$_.ProcessId } }"
END = FIND + "Stop-Process -Id $_.ProcessId -Force; $_.ProcessId } }"
Run = Callable[..., ExecResult]
"""Runs a command in a container of a pod; ``change`` describes what the command changes there.
Raises ProbeBroken."""


class Processes(Protocol):
    """Felix' process in one kind of place: in a calico-node-windows pod (given as the pod), or on a
    host (given as the node's name)."""

    def ids(self, place: Any) -> set[int]:
        """Return the ids of Felix' processes. Raise ProbeBroken or MissingCapability if they cannot
        be read."""

    def end(self, place: Any) -> None:
        """End the processes, which are then started again. Raise ProbeBroken or MissingCapability
        if they were not ended."""

    def ready(self, place: Any) -> bool:
        """Return whether Felix reports ready, which means that it has applied all its rules once.
        Raise ProbeBroken."""


class FelixProcess:
    """The processes of Felix in a pod, reached by PowerShell in its container."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def ids(self, place: Obj) -> set[int]:
        return process_ids(self._run(place, _container(place), (*POWERSHELL, LIST)), _label(place))

    def end(self, place: Obj) -> None:
        what = f"the process of Felix in {_label(place)}"
        done = ended(
            lambda: self._run(place, _container(place), (*POWERSHELL, END), change=f"end {what}")
        )
        if done and done.exit_code:
            raise ProbeBroken(f"{what} cannot be ended: {done.output.strip()[:300]}")

    def ready(self, place: Obj) -> bool:
        """Return whether Felix is ready: the command of its readiness probe succeeds, or the
        container has no such command."""
        name = _container(place)
        container = next(item for item in place["spec"]["containers"] if item["name"] == name)
        argv = value_at(container, "readinessProbe", "exec", "command")
        return not argv or self._run(place, name, argv).exit_code == 0


def ended(end: Callable[[], ExecResult]) -> ExecResult | None:
    """Return the result of the command that ends Felix. Return None if the command was cut off;
    then only a read of the processes shows whether Felix has ended."""
    try:
        return end()
    except ExecBroken as broken:
        if not broken.asked:
            raise
        return None


def process_ids(done: ExecResult, where: str) -> set[int]:
    """Return the process ids that :data:`LIST` printed.  Raise ProbeBroken."""
    words = done.stdout.decode(errors="replace").split()
    if done.exit_code or not all(word.isdigit() for word in words):
        raise ProbeBroken(f"the processes of {where} cannot be listed: {done.output.strip()[:300]}")
    return {int(word) for word in words}


def _container(pod: Obj) -> str:
    """Return the name of the container that Felix runs in. Raise ProbeBroken if the pod has no such
    container."""
    names = [container["name"] for container in pod["spec"]["containers"]]
    found = next((name for name in names if name in CONTAINERS), None)
    if found is None:
        raise ProbeBroken(f"{_label(pod)} has no container {' or '.join(CONTAINERS)}")
    return str(found)


def _label(pod: Obj) -> str:
    return f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"
