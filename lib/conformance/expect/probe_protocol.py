"""The agents by which everything is judged keep to their protocol in this cluster's pods, before anything is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from conformance.model.endpoint import Workload


@dataclass
class ProbeProtocol:
    """The check of one test."""

    hold: Callable[[Workload], object]
    """Holds the golden conversations with an agent in a pod.  Raises ProbeBroken with the line that differs."""

    def holds(self, pods: Sequence[Workload], *, because: str) -> None:
        """They are held with an agent in each of these pods, word for word.  Raises ProbeBroken (``because`` of it)."""
        with ThreadPoolExecutor(max(1, len(pods))) as pool:
            list(pool.map(self.hold, pods))
