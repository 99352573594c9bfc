"""Felix' process on a Windows node, seen and ended inside its container: felix-service.ps1 starts another at once.

That is a restart of Felix and nothing else.  A pod that is deleted takes the node's CNI configuration with it
(uninstall-calico-hpc.ps1), so that the node may turn NotReady, and needs its image again.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from conformance.errors import ProbeBroken
from conformance.kube.channels import ExecBroken
from conformance.kube.client import Obj
from conformance.kube.execute import ExecResult
from conformance.probe.host import POWERSHELL, STOP

CONTAINERS = ("felix", "calico-node-felix")
"""Names of Felix' container: of the operator and Calico's manifests, and of SIG-Windows' DaemonSet."""
FIND = (
    STOP + "foreach ($name in 'calico-node.exe', 'calico.exe') { "
    "Get-CimInstance Win32_Process -Filter ('Name=''' + $name + '''') | "
    "Where-Object { $_.CommandLine -match '( -|component )felix *$' } | ForEach-Object { "
)
"""``calico-node.exe -felix`` up to v3.32, ``calico.exe component felix`` since, as felix-service.ps1 runs them.  What
its probes run begins every few seconds and ends otherwise: ``calico-node.exe -felix-live``, ``calico.exe component node
health --felix-ready`` (tigera/operator, pkg/render/windows.go)."""
LIST = FIND + "$_.ProcessId } }"
END = FIND + "Stop-Process -Id $_.ProcessId -Force; $_.ProcessId } }"
Run = Callable[[Obj, str, Sequence[str]], ExecResult]
"""Runs a command in a container of a pod.  Raises ProbeBroken."""


class Processes(Protocol):
    """Felix' process in a calico-node-windows pod."""

    def ids(self, pod: Obj) -> set[int]:
        """Ids of Felix' processes.  Raises ProbeBroken where that cannot be seen."""

    def end(self, pod: Obj) -> None:
        """End them.  Raises ProbeBroken where that was not done."""

    def ready(self, pod: Obj) -> bool:
        """Whether Felix says that it is ready, which means a first full apply.  Raises ProbeBroken."""


class FelixProcess:
    """The same, by PowerShell in the pod's container for it."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def ids(self, pod: Obj) -> set[int]:
        return process_ids(self._run(pod, _container(pod), (*POWERSHELL, LIST)), _label(pod))

    def end(self, pod: Obj) -> None:
        """As :class:`Processes` says; a command that was cut off may have ended them, which :meth:`ids` shows."""
        try:
            done = self._run(pod, _container(pod), (*POWERSHELL, END))
        except ExecBroken as broken:
            if not broken.asked:
                raise
            return
        if done.exit_code:
            raise ProbeBroken(
                f"the process of Felix in {_label(pod)} cannot be ended: {done.output.strip()[:300]}"
            )

    def ready(self, pod: Obj) -> bool:
        """As :class:`Processes` says; asked by its readiness probe's own command, if it has one."""
        name = _container(pod)
        probe: Any = next(item for item in pod["spec"]["containers"] if item["name"] == name).get(
            "readinessProbe"
        )
        argv = ((probe or {}).get("exec") or {}).get("command")
        return not argv or self._run(pod, name, argv).exit_code == 0


class DescribedProcess:
    """The same in a dry run: what would be done is told."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell

    def ids(self, pod: Obj) -> set[int]:
        """Return a new id each time, as after a restart."""
        return {id(object())}

    def end(self, pod: Obj) -> None:
        self._tell(f"dry run: end the process of Felix in {_label(pod)}")

    def ready(self, pod: Obj) -> bool:
        return True


def process_ids(done: ExecResult, where: str) -> set[int]:
    """What :data:`LIST` printed.  Raises ProbeBroken."""
    words = done.stdout.decode(errors="replace").split()
    if done.exit_code or not all(word.isdigit() for word in words):
        raise ProbeBroken(f"the processes of {where} cannot be listed: {done.output.strip()[:300]}")
    return {int(word) for word in words}


def _container(pod: Obj) -> str:
    """Name of the container that Felix runs in.  Raises ProbeBroken."""
    names = [container["name"] for container in pod["spec"]["containers"]]
    found = next((name for name in names if name in CONTAINERS), None)
    if found is None:
        raise ProbeBroken(f"{_label(pod)} has no container {' or '.join(CONTAINERS)}")
    return str(found)


def _label(pod: Obj) -> str:
    return f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"
