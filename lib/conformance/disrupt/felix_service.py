"""Felix as the Windows service CalicoFelix, or as a process of RKE2's agent: no DaemonSet brought Calico to the node.

There is no pod to look into then: its process is seen from a HostProcess pod, and its service restarted, or its process
ended, which the agent starts again.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from conformance.disrupt.felix_process import END, LIST, process_ids
from conformance.errors import MissingCapability, ProbeBroken
from conformance.kube.channels import ExecBroken
from conformance.kube.execute import ExecResult
from conformance.model.facts import Facts
from conformance.probe.host import POWERSHELL, STOP

SERVICE = "CalicoFelix"
RESTART = f"{STOP}Restart-Service -Name {SERVICE} -Force"
NO_SUCH_SERVICE = "NoServiceFoundForGivenName"
"""The error's id, which is the same in every language of Windows."""
Run = Callable[[str, Sequence[str]], ExecResult]
"""Runs a command in the host of the node of that name.  Raises ProbeBroken, MissingCapability (no HostProcess pods)."""


class Services(Protocol):
    """Felix' service on Windows nodes."""

    def ids(self, node: str) -> set[int]:
        """Ids of Felix' processes.  Raises ProbeBroken, MissingCapability (no HostProcess pods)."""

    def restart(self, node: str) -> None:
        """Restart the service.  Raises as :meth:`ids`; MissingCapability also where there is no such service."""


def may_be_service(facts: Facts) -> bool:
    """Whether Felix may be a service on Windows nodes: no DaemonSet brought Calico there."""
    return facts.install.value not in ("operator", "manifest")


class FelixService:
    """The same, by PowerShell in HostProcess pods."""

    def __init__(self, run: Run, *, by_agent: bool = False) -> None:
        """``by_agent``: it is a process that RKE2's agent starts, and no service."""
        self._run = run
        self._restart = END if by_agent else RESTART

    def ids(self, node: str) -> set[int]:
        return process_ids(self._run(node, (*POWERSHELL, LIST)), f"node {node}")

    def restart(self, node: str) -> None:
        """As :class:`Services` says; a command that was cut off may have restarted it, which :meth:`ids` shows."""
        try:
            done = self._run(node, (*POWERSHELL, self._restart))
        except ExecBroken as broken:
            if not broken.asked:
                raise
            return
        if done.exit_code and NO_SUCH_SERVICE in done.output:
            raise MissingCapability(
                f"Felix on node {node} runs in no pod, and there is no service {SERVICE}",
                "restart Calico there by hand; this suite restarts pods of calico-node-windows and this service",
            )
        if done.exit_code:
            raise ProbeBroken(
                f"service {SERVICE} of node {node} cannot be restarted: {done.output.strip()[:300]}"
            )


class DescribedService:
    """The same in a dry run: what would be done is told."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell

    def ids(self, node: str) -> set[int]:
        """One that is never the same: each look sees what a restart leads to."""
        return {id(object())}

    def restart(self, node: str) -> None:
        self._tell(f"dry run: restart service {SERVICE} of node {node}")
