# SPDX-License-Identifier: Apache-2.0
"""An estimate, from the plan, of a run's duration and its load on the cluster.

The durations of tests were measured on a lab (:attr:`Order.lab`), or on a lab with a real cluster's
timings (:attr:`Order.real`), never on a real cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from conformance.pods.coverage import Covered
from conformance.schedule.order import order
from conformance.schedule.plan import PlannedTest
from conformance.settings import Workers

SPAN = {True: (0.5, 1.0), False: (0.5, 2.0)}
"""Factors for the packaged seconds of tests, on a lab (True) and on a cluster. The seconds were
measured with six workers on two busy cores. On a quiet machine the same tests take half
(`-k policy` on a lab: 581 s of 1,139). A real cluster may be slower than the lab that represents
it. A broken cluster takes even longer, since the suite waits for each wrong path."""
ON_A_NODE = (2 * 60, 10 * 60)
"""The duration, in seconds, of a test that has a node to itself: Felix restarts, and connections
are watched meanwhile."""
ON_THE_CLUSTER = (10 * 60, 30 * 60)
"""The duration, in seconds, of a test that has the cluster to itself: every Windows node is drained
and restored."""
STARTING = {True: (5, 60), False: (60, 5 * 60)}
"""Seconds for facts, namespaces, and pods whose images are present, on a lab (True) and on a
cluster (False)."""
PULLING = (5, 15)
"""Minutes to pull server core onto a node (1.3 to 2.5 GB, Microsoft's figures and Kubernetes'
CI)."""
PATHS = 3
"""The number of paths between two nodes that a test of single ports probes."""
REPORTED = 0.008
"""The size of a report for each path of a test, in MB: 20 MB for two tests of 1,200 paths on twenty
nodes."""
MANY_NODES = 16
"""The number of covered nodes up to which the estimate's seconds are valid."""
ASKED = 17
"""The number of attempts on each path of a test of single ports, from 16,464 on 960 paths of 19
nodes.
"""
ATTEMPTS = 1000
"""The number of attempts that a process makes per second."""
ON_LINUX = 4
"""The number of a worker's pods on each covered Linux node: client, server, another namespace's
client, the node's own network."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The estimate of a plan."""

    shared: int
    """The number of tests that run at the same time as others."""
    on_a_node: int
    on_the_cluster: int
    seconds: tuple[float, float]
    """The packaged durations for one worker, in seconds: the sum for tests that run at the same
    time as others, and the sum for all other tests."""
    lab: bool
    """True if the cluster is a lab with its own timings."""
    workers: int
    """The number of workers that ``-n auto`` chooses."""
    pods: dict[str, int]
    """The maximum number of pods at one time on a node of each operating system."""
    agents: int
    """The maximum number of agents at one time on all nodes together."""

    def minutes(self, workers: int) -> tuple[int, int]:
        """Return the least and the most minutes, without the time for pulling images; each is at
        least 1."""
        shared, others = self.seconds
        found = []
        for which in (0, 1):
            part = SPAN[self.lab][which]
            exclusive = (
                self.on_a_node * ON_A_NODE[which] + self.on_the_cluster * ON_THE_CLUSTER[which]
            )
            alone = others * part if self.lab else exclusive
            seconds = STARTING[self.lab][which] + alone + shared * part / workers
            found.append(max(1, round(seconds / 60)))
        return found[0], found[1]

    def lines(self) -> list[str]:
        """Return the lines for the end of a plan."""
        tests = f"{self.shared} tests in parallel"
        tests += f", {self.on_a_node} that use a node alone" if self.on_a_node else ""
        tests += (
            f", {self.on_the_cluster} that use the cluster alone" if self.on_the_cluster else ""
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
            f"estimate: {tests}: {text}"
            + (
                ""
                if self.lab
                else f"; {PULLING[0]} to {PULLING[1]} min more if the nodes have not yet "
                "pulled the server core image"
            ),
            f"estimate: at most {self.agents} agents at the same time; pods at the same "
            f"time: {pods}",
            "estimate: computed from the durations of the tests on a lab"
            + ("" if self.lab else " with a real cluster's timings, not on a real cluster"),
        ]


def lines_of_many_nodes(tests: int, nodes: int, most: int) -> list[str]:
    """Return lines about the cost of ``tests`` tests on ``nodes`` covered nodes; empty for few
    nodes.

    ``most``: the maximum number of pairs of nodes that a test tries at once.
    """
    if nodes <= MANY_NODES:
        return []
    pairs = nodes * nodes
    least = PATHS * max(most, nodes)
    each = PATHS * pairs
    minutes = [max(1, round(tests * paths * ASKED / ATTEMPTS / 60)) for paths in (least, each)]
    return [
        f"estimate: {nodes} covered nodes are {pairs:,} ordered pairs of nodes: a test with "
        f"denials probes {least:,} paths, each test a different part, and a test of open paths "
        f"probes all {each:,}",
        f"estimate: {tests * least:,} to {tests * each:,} paths, {minutes[0]} to {minutes[1]} min "
        f"of one worker and {tests * least * REPORTED:,.0f} to {tests * each * REPORTED:,.0f} MB "
        "of "
        "reports for the tests in parallel; --max-nodes-per-os and -k reduce this",
    ]


def token_line(ends: float | None, most: int, now: float) -> str:
    """Return a line if a token ends before the end of a run of up to ``most`` minutes. Return an
    empty string if the token lasts longer, or if its end is not known."""
    if ends is None or ends >= now + most * 60:
        return ""
    return (
        f"the user's credentials end at {datetime.fromtimestamp(ends, UTC):%Y-%m-%d %H:%M} UTC, in "
        f"{max(0, ends - now) / 60:.0f} min, and this run may take {most}: later tests are "
        "INCONCLUSIVE, and "
        "the run's objects remain; name a kubeconfig with credentials that last "
        "(calico-conformance kubeconfig --hours N)"
    )


def packaged(tests: Sequence[PlannedTest], *, lab: bool) -> tuple[float, float]:
    """Return the sum of the packaged seconds of tests that run at the same time as others, and the
    sum for exclusive tests.

    ``lab``: the seconds of a lab with its own timings; otherwise of a lab with a real cluster's
    timings.
    """
    known = [(test.exclusivity.exclusive, order().seconds(test.test, lab=lab)) for test in tests]
    alone = sum(seconds for exclusive, seconds in known if exclusive)
    return sum(seconds for _, seconds in known) - alone, alone


def span(tests: Sequence[PlannedTest], workers: int, *, lab: bool) -> tuple[float, float]:
    """Return the least and the most seconds that tests take, by their packaged seconds."""
    shared, alone = packaged(tests, lab=lab)
    least, most = (part * (alone + shared / max(1, workers)) for part in SPAN[lab])
    return least, most


def estimate(
    tests: Sequence[PlannedTest],
    coverage: Sequence[Covered],
    workers: int,
    costs: Workers,
    *,
    lab: bool = False,
) -> Estimate:
    """Estimate the tests that will run, on these nodes, with the workers of ``-n auto``."""
    turns = [test.exclusivity.kind for test in tests]
    systems = sorted({covered.node.os for covered in coverage})
    each = {"linux": ON_LINUX, "windows": costs.addresses}
    return Estimate(
        shared=sum(kind not in ("node", "cluster") for kind in turns),
        on_a_node=turns.count("node"),
        on_the_cluster=turns.count("cluster"),
        seconds=packaged(tests, lab=lab),
        lab=lab,
        workers=max(1, workers),
        pods={os: each[os] * max(1, workers) for os in systems},
        agents=min(costs.agents, costs.agents_per_node * len(coverage) * max(1, workers)),
    )
