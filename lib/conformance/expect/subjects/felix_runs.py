# SPDX-License-Identifier: Apache-2.0
"""Expectations that Felix runs on nodes. On a node without Felix no policy is programmed, and other
failures follow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from conformance.errors import EnvironmentBroken, Nonconformance
from conformance.expect.check import Judged, check
from conformance.expect.context import Context
from conformance.expect.explain.advice import DOWN, pods_on
from conformance.model.facts import NodeFacts
from conformance.timing import SYSTEM_CLOCK, Clock, until


@dataclass(frozen=True)
class FelixRuns:
    """The expectations of a test about Felix on the cluster's Windows nodes."""

    context: Context
    nodes: Sequence[NodeFacts]
    """The nodes that were Ready when the run began."""
    down: Callable[[Sequence[str]], Mapping[str, str]]
    """Returns those of the given nodes on which Felix does not run, each with the state of Felix,
    or with a text that Felix is not installed there."""
    lost: Callable[[Sequence[str]], Mapping[str, str]]
    """Returns those of the given nodes that died during the run, each with the error."""
    changed: Callable[[str], bool]
    """Returns whether this run has restarted Felix on a node, or may have restarted it."""
    within: float
    """Seconds for which Felix may be absent."""
    every: float
    """The pause, in seconds, between two checks."""
    clock: Clock = SYSTEM_CLOCK

    def everywhere(self, *, because: str) -> None:
        """Expect Felix to run on every node at two checks in a row, or to run again in time. Raise
        Nonconformance if Felix does not run; EnvironmentBroken if a node died, or if this run's own
        restarts may be the cause."""
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

    def _error(self, node: str, text: str, seconds: float, because: str) -> Exception:
        claims = ", ".join(self.context.claims)
        line = f"{claims}: {DOWN.format(node=node)}: {text}, for {seconds:.0f} s, or repeatedly"
        lines = f"  because  {because}\n  do       {pods_on(node)}"
        if self.changed(node):
            return EnvironmentBroken(f"{line}; this run itself has restarted Felix there\n{lines}")
        return Nonconformance(f"{line}\n{lines}")
