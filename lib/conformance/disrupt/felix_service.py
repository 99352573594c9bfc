# SPDX-License-Identifier: Apache-2.0
"""Felix as the Windows service CalicoFelix, or as a process of RKE2's agent, on clusters where no
DaemonSet installed Calico.

Such a Felix has no pod: its process is found from a HostProcess pod, and its service is restarted.
A process of RKE2's agent is not ended, because the agent does not start it again
(rancher/rke2#9324).
"""

from collections.abc import Callable

from conformance.disrupt.felix_process import LIST, ended, process_ids
from conformance.errors import MissingCapability, ProbeBroken
from conformance.kube.execute import ExecResult
from conformance.model.facts import Facts
from conformance.probe.host import POWERSHELL, STOP

SERVICE = "CalicoFelix"
RESTART = f"{STOP}Restart-Service -Name {SERVICE} -Force"
NO_SUCH_SERVICE = "NoServiceFoundForGivenName"
"""The error's id, which is the same in every language of Windows."""
Run = Callable[..., ExecResult]
"""Runs a command on the host of the named node; ``change`` describes what the command changes
there.

Raises ProbeBroken, MissingCapability (no HostProcess pods).
"""


def may_be_service(facts: Facts) -> bool:
    """Return whether Felix may be a service on Windows nodes, since no DaemonSet installed
    Calico."""
    return facts.install.value not in ("operator", "manifest")


class FelixService:
    """Felix' process on a host (``felix_process.Processes``), reached by PowerShell in HostProcess
    pods."""

    def __init__(self, run: Run, *, by_agent: bool = False) -> None:
        """Set up the service. ``by_agent``: Felix is no service but a process of RKE2's agent,
        which starts it only once."""
        self._run = run
        self._by_agent = by_agent

    def ids(self, place: str) -> set[int]:
        return process_ids(self._run(place, (*POWERSHELL, LIST)), f"node {place}")

    def end(self, place: str) -> None:
        """Restart the service. Raise MissingCapability if there is no service; nothing was changed
        then."""
        if self._by_agent:
            raise MissingCapability(
                f"RKE2's agent runs Felix on node {place}, and would not restart it "
                "(rancher/rke2#9324)",
                "restart the service rke2 on that node by hand, and check the result yourself",
            )
        what = f"service {SERVICE} of node {place}"
        done = ended(lambda: self._run(place, (*POWERSHELL, RESTART), change=f"restart {what}"))
        if done is None or not done.exit_code:
            return
        if NO_SUCH_SERVICE in done.output:
            raise MissingCapability(
                f"Felix on node {place} runs in no pod, and there is no service {SERVICE}",
                "restart Calico there by hand; this suite restarts pods of calico-node-windows and this service",
            )
        raise ProbeBroken(f"{what} cannot be restarted: {done.output.strip()[:300]}")

    def ready(self, place: str) -> bool:
        """Return True: a Windows service does not report readiness."""
        return True
