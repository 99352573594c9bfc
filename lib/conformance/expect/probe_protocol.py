"""The agents by which everything is judged keep to their protocol in this cluster's pods, before anything is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass

from conformance.model.endpoint import Workload
from conformance.probe.golden_servers import Servers


@dataclass
class ProbeProtocol:
    """The check of one test."""

    hold: Callable[[Workload, Servers | None], object]
    """Holds the golden conversations with the agents of a pod, those that need servers where there are some.  Raises
    ProbeBroken with the line that differs."""
    serving: Callable[[Workload], AbstractContextManager[Servers | None]]
    """Runs the servers in a Linux pod meanwhile, or none."""

    def holds(self, pods: Sequence[Workload], *, because: str) -> None:
        """They are held with the agents of each of these pods, one of them Linux, word for word.

        Raises ProbeBroken (``because`` of it).
        """
        linux = next(pod for pod in pods if pod.os == "linux")
        with self.serving(linux) as servers, ThreadPoolExecutor(len(pods)) as pool:
            list(pool.map(lambda pod: self.hold(pod, servers), pods))
