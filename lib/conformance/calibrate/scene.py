# SPDX-License-Identifier: Apache-2.0
"""The pods of a calibration, a client and a server on each covered node, and the access to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from conformance.calibrate.record import Record
from conformance.errors import EnvironmentBroken, SuiteError, first_line
from conformance.kube import execute
from conformance.kube.changes import Changes
from conformance.kube.execute import ExecResult
from conformance.model.endpoint import OS, SYSTEMS, Workload
from conformance.model.facts import Facts, NodeFacts
from conformance.pods.deploy import Pods, Wish
from conformance.pods.host_pods import HostPods
from conformance.pods.placement import Placement
from conformance.probe.host import Hosts
from conformance.probe.limits import Limits
from conformance.probe.prober import Prober
from conformance.run.run import Run
from conformance.settings import Settings
from conformance.timing import Deadline

AT_ONCE = 3
"""The maximum number of programs that start at the same time: one more than the suite itself
allows."""


class Scene:
    """The pods, connections and records that all measurements of a calibration share."""

    def __init__(self, run: Run, facts: Facts, box: Deadline, shared: Path) -> None:
        """Set up the scene without creating a pod. ``run`` must have an open connection to its
        cluster. ``box``: the time limit of the calibration."""
        self.settings = run.settings
        self.box = box
        self.record = Record()
        self.nodes = covered(facts, run.settings)
        self.kube = run.connect()
        self.changes = Changes(self.kube, run.ownership(run.settings.worker))
        self.pods = Pods(self.kube, self.changes, facts, run.settings, run.progress())
        self.prober = Prober(
            self.kube, shared, run.settings, limits=Limits(powershell_starts=AT_ONCE)
        )
        host = HostPods(self.pods).on
        self.hosts = Hosts(self.prober.run, host, host, run.settings.timings, once=True)
        self.clients: list[Workload] = []
        self.servers: list[Workload] = []

    def deploy(self) -> None:
        """Deploy a client and a server on each node, and wait for them while the calibration has
        time.

        Nodes whose pods do not become ready are recorded.
        """
        self.pods.prepare(self.pods.namespace)

        def pair(node: NodeFacts) -> None:
            number = 1 + self.nodes.index(node)
            names = [f"{node.os}-{kind}" for kind in ("client", "server")]
            wishes = [Wish(role=name, node=node, name=f"{name}-{number}") for name in names]
            client, server = self.pods.deploy(wishes).values()
            self.clients.append(client)
            self.servers.append(server)

        self.each("pods", self.nodes, pair)

    def each(
        self,
        name: str,
        places: Sequence[NodeFacts | Workload],
        work: Callable[..., object],
    ) -> None:
        """Measure on all of these nodes or pods at once. Record a measurement that fails, and go
        on with the others."""
        with ThreadPoolExecutor(max(1, len(places))) as pool:
            futures = [pool.submit(work, place) for place in places]
        for place, future in zip(places, futures, strict=True):
            try:
                future.result()
            except SuiteError as error:
                node = place.node if isinstance(place, Workload) else place.name
                self.record.lack(name, first_line(error), node)

    def pick(self, pods: Sequence[Workload], system: OS, other: Workload | None = None) -> Workload:
        """Return a pod of this list with the given operating system, if possible on another node
        than ``other``. Raise EnvironmentBroken if the list has no such pod."""
        found = [pod for pod in pods if pod.os == system]
        if not found:
            raise EnvironmentBroken(f"no pod of {system} is ready")
        return min(found, key=lambda pod: bool(other and pod.node == other.node))

    def seat_of(self, workload: Workload) -> str:
        """Return the name of a pod's Deployment, which is its label ``conformance/seat``."""
        return f"{workload.role}-{1 + [node.name for node in self.nodes].index(workload.node)}"

    def command(self, pod: Workload, *argv: str) -> ExecResult:
        """Run a command in a pod's probing container, without waiting for other starts.  Raise
        SuiteError."""
        where = (self.kube, pod.namespace, pod.pod, pod.container)
        done = execute.run(*where, argv, within=max(5.0, self.box.remaining / 4))
        if done.exit_code:
            raise SuiteError(
                f"{argv[0]} in {pod.label} ended with exit code {done.exit_code}: {done.output}"
            )
        return done


def covered(facts: Facts, settings: Settings) -> list[NodeFacts]:
    """Return the nodes on which measurements are made, Linux nodes first."""
    coverage = Placement(facts, settings.tolerations, cover=settings.cover).coverage
    return [item.node for system in SYSTEMS for item in coverage(system)]
