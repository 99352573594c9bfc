"""Commands run in a pod word for word, as the documents have them, with the same care for Windows nodes as agents.

What they print is evidence beside an attempt on the same path, never a verdict of its own: expectations compare.
"""

from collections.abc import Sequence

from conformance.kube import execute
from conformance.kube.client import Kube
from conformance.kube.execute import ExecResult
from conformance.kube.transcript import Transcript, forget
from conformance.model.endpoint import Workload
from conformance.pods.roles import ROLES
from conformance.probe.limits import Counts, Limits
from conformance.probe.slots import Slots


class Literal:
    """Runs literal commands on one cluster.  Thread-safe."""

    def __init__(
        self,
        kube: Kube,
        slots: Slots,
        *,
        transcript: Transcript = forget,
        limits: Limits | None = None,
        counts: Counts | None = None,
    ) -> None:
        """``counts``: the prober's, where its commands are counted too."""
        self._kube = kube
        self._slots = slots
        self._transcript = transcript
        self._limits = limits or Limits()
        self._counts = counts or Counts()

    def run(self, workload: Workload, argv: Sequence[str], within: float) -> ExecResult:
        """Run ``argv`` in the pod's main container, to its end, within so many seconds.  A pod that is none of the
        suite's (Calico's own) is asked in the Workload's container.

        Waits for a free PowerShell start of a Windows node first (not counted).  Raises ProbeBroken.
        """
        container = ROLES[workload.role].main if workload.role in ROLES else workload.container
        if workload.os != "windows":
            return self._exec(workload, container, argv, within)
        starts = f"powershell-{workload.node}"
        purpose = f"exec of a command in {workload.namespace}/{workload.pod}"
        with self._slots.hold(starts, self._limits.powershell_starts, 10 * within, purpose):
            return self._exec(workload, container, argv, within)

    def _exec(
        self, workload: Workload, container: str, argv: Sequence[str], within: float
    ) -> ExecResult:
        self._counts.commands[workload.node, workload.os] += 1
        return execute.run(
            self._kube,
            workload.namespace,
            workload.pod,
            container,
            argv,
            within=within,
            transcript=self._transcript,
        )
