# SPDX-License-Identifier: Apache-2.0
"""Does Felix run on nodes?  Where it does not, nothing is programmed there, and whatever fails there fails of that."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from conformance.errors import EnvironmentBroken, Nonconformance
from conformance.expect.check import Judged, check
from conformance.expect.context import Context
from conformance.expect.explain.advice import pods_on
from conformance.model.facts import NodeFacts
from conformance.timing import SYSTEM_CLOCK, Clock, until

DOWN = "Felix does not run on {node}"
"""What is said of a node where it does not, by every test that fails there."""


@dataclass(frozen=True)
class FelixRuns:
    """Expectations of one test about Felix on the cluster's Windows nodes."""

    context: Context
    nodes: Sequence[NodeFacts]
    """Those that were Ready when the run began."""
    down: Callable[[Sequence[str]], Mapping[str, str]]
    """Which of some nodes it does not run on, each with what it does instead, or that nothing of it is there."""
    lost: Callable[[Sequence[str]], Mapping[str, str]]
    """Which of some nodes died during the run, each with what is said of it."""
    changed: Callable[[str], bool]
    """Whether this run has restarted it there itself, or may have."""
    within: float
    """s.  It may be away for so long."""
    every: float
    """s.  Between two looks."""
    clock: Clock = SYSTEM_CLOCK

    def everywhere(self, *, because: str) -> None:
        """It runs on every node at two looks in a row, or does again in time.

        Raises Nonconformance where it does not; EnvironmentBroken where a node died, or this run's own restarts may be
        why.
        """
        names = [node.name for node in self.nodes]
        settled = until(
            lambda: self.down(names),
            lambda down: not down,
            within=self.within,
            every=self.every,
            agree=2,
            description=because,
            clock=self.clock,
        )
        down = settled.last
        lost = self.lost(list(down)) if down else {}

        def judge(node: NodeFacts) -> Judged:
            if node.name not in down:
                return because
            if node.name in lost:
                return EnvironmentBroken(lost[node.name])
            return self._error(node.name, down[node.name], settled.seconds, because)

        check(self.context, "read", [(None, node, node) for node in self.nodes], judge)

    def _error(self, node: str, told: str, seconds: float, because: str) -> Exception:
        claims = ", ".join(self.context.claims)
        line = f"{claims}: {DOWN.format(node=node)}: {told}, for {seconds:.0f} s or again and again"
        lines = f"  because  {because}\n  do       {pods_on(node)}"
        if self.changed(node):
            return EnvironmentBroken(f"{line}; this run has restarted it itself\n{lines}")
        return Nonconformance(f"{line}\n{lines}")
