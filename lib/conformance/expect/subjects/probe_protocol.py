# SPDX-License-Identifier: Apache-2.0
"""The expectation that the agents follow their protocol in this cluster's pods. It is checked
first, since every other result depends on the agents."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from conformance.errors import ProbeBroken
from conformance.expect.owners import ForeignPolicyView, NoForeignChanges, decided
from conformance.model.endpoint import Workload
from conformance.probe.golden import Servers


@dataclass
class ProbeProtocol:
    """The expectation of a test about the probe protocol."""

    hold: Callable[[Workload, Servers | None], object]
    """A function that runs the golden (recorded) conversations with the agents of a pod.
    Conversations that need servers are run only if there are servers. The function raises
    ProbeBroken with the line that differs."""
    serving: Callable[[Workload], AbstractContextManager[Servers | None]]
    """A context manager that runs the servers in a Linux pod during the conversations. It yields
    None if it runs no servers."""
    others: ForeignPolicyView = field(default_factory=NoForeignChanges)
    """The policies of other owners, which may close the paths from a pod to those servers."""

    def holds(self, pods: Sequence[Workload], *, because: str) -> None:
        """Run the golden conversations with the agents of each of these pods, and compare each
        line. At least one of the pods must be a Linux pod. Raise ProbeBroken, or EnvironmentBroken
        if another owner's policy closes the path from a pod to the servers."""
        linux = next(pod for pod in pods if pod.os == "linux")
        with self.serving(linux) as servers, ThreadPoolExecutor(len(pods)) as pool:
            list(pool.map(lambda pod: self._held(pod, servers), pods))

    def _held(self, pod: Workload, servers: Servers | None) -> None:
        try:
            self.hold(pod, servers)
        except ProbeBroken as error:
            port = servers.ports.get("$HTTP") if servers and servers.pod != pod else None
            by = (
                self.others.excuse(pod, servers.pod.tcp(port), "closed", protocol="TCP")
                if servers and port
                else ""
            )
            if not by:
                raise
            raise decided(self.others, str(error), by) from error
