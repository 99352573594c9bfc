# SPDX-License-Identifier: Apache-2.0
"""How long a run takes and what it puts on the cluster: estimated from the plan, before anything is
done.

The seconds are those of a run on a lab whose PowerShell and policy are as slow as a real cluster's,
16 s of a worker for a test (docs/field-guide.md); no run on a real cluster is behind them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from conformance.pods.coverage import Covered
from conformance.schedule.plan import PlannedTest
from conformance.settings import Workers

SHARED = (10, 30)
"""s.  Of one worker, for a test beside others."""
ON_A_NODE = (2 * 60, 10 * 60)
"""s.  For a test that has a node to itself: Felix restarts, and connections are watched
meanwhile."""
ON_THE_CLUSTER = (10 * 60, 30 * 60)
"""s.  For a test that has the cluster to itself: every Windows node is drained, and put back."""
STARTING = (60, 5 * 60)
"""s.  Facts, namespaces, pods with images that are there."""
PULLING = (5, 15)
"""min.  Server core onto a node that does not have it (1.3 to 2.5 GB, Microsoft's figures and
Kubernetes' CI)."""
ON_LINUX = 4
"""Pods of a worker on each covered Linux node: client, server, another namespace's client, the
node's own network."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Of one plan."""

    shared: int
    """Tests that run beside others."""
    on_a_node: int
    on_the_cluster: int
    workers: int
    """What ``-n auto`` chooses."""
    pods: dict[str, int]
    """At most at once, on a node of each operating system."""
    agents: int
    """At most at once, in all."""

    def minutes(self, workers: int) -> tuple[int, int]:
        """From and to, without pulling; at least 1."""
        alone = [
            self.on_a_node * one + self.on_the_cluster * all_
            for one, all_ in zip(ON_A_NODE, ON_THE_CLUSTER, strict=True)
        ]
        least, most = (
            start + rest + self.shared * one / workers
            for start, rest, one in zip(STARTING, alone, SHARED, strict=True)
        )
        return max(1, round(least / 60)), max(1, round(most / 60))

    def lines(self) -> list[str]:
        """For the end of a plan."""
        tests = f"{self.shared} tests beside each other"
        tests += f", {self.on_a_node} with a node to themselves" if self.on_a_node else ""
        tests += (
            f", {self.on_the_cluster} with the cluster to themselves" if self.on_the_cluster else ""
        )
        alone = self.minutes(1)
        together = self.minutes(self.workers)
        text = f"{alone[0]} to {alone[1]} min by one worker"
        if self.workers > 1:
            text += f", {together[0]} to {together[1]} min by {self.workers} (-n auto)"
        pods = ", ".join(
            f"{count} on each covered {os.capitalize()} node" for os, count in self.pods.items()
        )
        return [
            f"estimate: {tests}: {text}; "
            f"{PULLING[0]} to {PULLING[1]} min more where server core is not yet on the nodes",
            f"estimate: at once at most {self.agents} agents, and pods: {pods}",
            "estimate: from a lab with a real cluster's timings, not measured on one (docs/field-guide.md)",
        ]


def token_line(ends: float | None, most: int, now: float) -> str:
    """Return that a token ends before a run that takes up to ``most`` minutes; empty: it does not,
    as far as is known."""
    if ends is None or ends >= now + most * 60:
        return ""
    return (
        f"the user's credentials end at {datetime.fromtimestamp(ends, UTC):%Y-%m-%d %H:%M} UTC, in "
        f"{max(0, ends - now) / 60:.0f} min, and this run may take {most}: what comes after that is INCONCLUSIVE, and "
        "what the run made stays; name a kubeconfig with credentials that last "
        "(calico-conformance kubeconfig --hours N)"
    )


def estimate(
    tests: Sequence[PlannedTest], coverage: Sequence[Covered], workers: int, costs: Workers
) -> Estimate:
    """Of the tests that will run, on these nodes, by ``-n auto``'s workers."""
    turns = [test.exclusivity.kind for test in tests]
    systems = sorted({covered.node.os for covered in coverage})
    each = {"linux": ON_LINUX, "windows": costs.addresses}
    return Estimate(
        shared=sum(kind not in ("node", "cluster") for kind in turns),
        on_a_node=turns.count("node"),
        on_the_cluster=turns.count("cluster"),
        workers=max(1, workers),
        pods={os: each[os] * max(1, workers) for os in systems},
        agents=min(costs.agents, costs.agents_per_node * len(coverage) * max(1, workers)),
    )
