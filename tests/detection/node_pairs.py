# SPDX-License-Identifier: Apache-2.0
"""Pairs of nodes for the wrong-verdict table: a Linux and a Windows node with their own pods, open
and closed paths between them, the real judge, and the lab's faults."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from conformance.expect.context import Context
from conformance.expect.traffic import Expect
from conformance.facts.detect import detect
from conformance.kube.access import from_kubeconfig
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import Ownership
from conformance.model.change import ObjectRef
from conformance.model.endpoint import OS, Addressing, Target, Workload
from conformance.model.facts import Facts
from conformance.pods.deploy import Pods, Wish
from conformance.pods.roles import ECHO_PORT, ROLES
from conformance.pods.tailor import SEAT
from conformance.probe.prober import Limits, Prober
from conformance.settings import Settings, load_timings
from hybridlab.cluster import control, kubeconfig
from tests.unit.conformance.expect.denial import blocked

SYSTEMS: tuple[OS, OS] = ("linux", "windows")
FRIEND_NODE = "linux-5"
"""A node outside all pairs, so that faults of the pairs do not affect the control."""
LIMITS = Limits(restarts=10_000)
"""A higher limit, since the table breaks a pod's agent many times on purpose."""
POLICIES = "networking.k8s.io/v1"


@dataclass
class NodePair:
    """One pair of nodes, and the paths that are asked on it."""

    number: int
    kube: Kube
    changes: Changes
    pods: Pods
    settings: Settings
    folder: Path
    control: Path
    domain: str
    workloads: dict[str, Workload] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        return self.pods.namespace

    def begin(self, facts: Facts) -> None:
        """Deploy the pods, wait until every path is open, and close some paths."""
        names = {"friend": FRIEND_NODE}
        for system in SYSTEMS:
            names |= {
                f"{part}-{system}": f"{system}-{self.number}"
                for part in ("subject", "open", "shut", "late")
            }
        nodes = {node.name: node for node in facts.nodes}
        wishes = [
            Wish(role=f"{nodes[node].os}-client", node=nodes[node], name=name)
            for name, node in names.items()
        ]
        self.workloads = self.pods.deploy(wishes)
        for name in ("open", "shut"):
            for system in SYSTEMS:
                self._service(f"{name}-{system}")
        self.prober = Prober(self.kube, self.folder, self.settings, limits=LIMITS)
        self.expect = Expect(self.prober, self.settings.timings, Context(claims=("table",)))
        sources = [self.subject(system) for system in SYSTEMS] + [self.friend]
        for server in (
            self.server(f"{path}-{system}")
            for path in ("open", "shut", "late")
            for system in SYSTEMS
        ):
            self.expect.control(sources, server, because="no policy is in force yet")
        for server in (
            self.by_name(f"{path}-{system}") for path in ("open", "shut") for system in SYSTEMS
        ):
            self.expect.control(sources, server, because="no policy is in force yet")
        for system in SYSTEMS:
            self.close(f"shut-{system}")
            blocked(self.expect,
                [self.subject(item) for item in SYSTEMS], self.server(f"shut-{system}"), because="only the friend may",
                beside=[self.friend, *((self.subject(item), self.bystander) for item in SYSTEMS)],
            )  # fmt: skip

    def end(self) -> None:
        self.prober.close()
        self.kube.close()

    # --- who and where ------------------------------------------------------------------------------------------------

    @property
    def friend(self) -> Workload:
        return self.workloads["friend"]

    def subject(self, system: OS) -> Workload:
        return self.workloads[f"subject-{system}"]

    @property
    def bystander(self) -> Target:
        """Return a server that everybody may reach, on a node that no pair's faults affect."""
        return self.friend.tcp(ECHO_PORT)

    def server(self, name: str) -> Target:
        return self.workloads[name].tcp(ECHO_PORT)

    def by_name(self, name: str) -> Target:
        host = f"{name}.{self.namespace}.svc.{self.domain}."
        return Target(
            host=host,
            port=ECHO_PORT,
            protocol="tcp",
            path=Addressing.NAME,
            backends=(self.workloads[name],),
            name=name,
        )

    def read_again(self, name: str) -> None:
        """Wait until a restarted pod is ready, and store its new state."""
        workload = self.workloads[name]
        found = self.changes.waits.pods_ready(self.namespace, f"{SEAT}={name}", 1, within=90.0)
        self.workloads[name] = self.pods.workload(found[0], ROLES[workload.role])

    def replace(self, name: str) -> None:
        """Replace a pod that was restarted often, since its kubelet waits longer each time."""
        old = self.workloads[name]
        pod = ObjectRef(api_version="v1", kind="Pod", name=old.pod, namespace=old.namespace)
        self.changes.delete_and_wait(pod, "restarted too often", within=20.0)
        self.read_again(name)

    # --- policies -----------------------------------------------------------------------------------------------------

    def close(self, name: str) -> None:
        """Close the pod to all clients but the friend."""
        spec: Obj = {
            "podSelector": {"matchLabels": {SEAT: name}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {SEAT: "friend"}}}]}],
        }
        policy = {
            "apiVersion": POLICIES,
            "kind": "NetworkPolicy",
            "metadata": {"name": name},
            "spec": spec,
        }
        self.changes.apply(policy, "closes a path", namespace=self.namespace)

    def open(self, name: str) -> None:
        """Open the pod again."""
        target = ObjectRef(
            api_version=POLICIES, kind="NetworkPolicy", name=name, namespace=self.namespace
        )
        self.changes.delete(target, "opens a path again")

    def _service(self, name: str) -> None:
        spec = {"selector": {SEAT: name}, "ports": [{"port": ECHO_PORT}]}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
        self.changes.apply(service, "gives it a name", namespace=self.namespace)

    # --- faults -------------------------------------------------------------------------------------------------------

    def ask(self, **request: Any) -> Any:
        return control.ask(self.control, request)

    @contextlib.contextmanager
    def fault(
        self, name: str, parameters: dict[str, str], heal_after: float = 0.0
    ) -> Iterator[None]:
        """Inject a fault for the length of the block; heal it earlier, after ``heal_after``
        seconds, if that is not 0."""
        identity = self.ask(op="inject", fault=name, parameters=parameters)["id"]
        once = threading.Lock()

        def heal() -> None:
            if once.acquire(blocking=False):
                self.ask(op="heal", id=identity)

        timer = threading.Timer(heal_after, heal)
        if heal_after:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            heal()
            if heal_after:
                timer.join()


def patient(timings: Path, folder: Path, **entries: str) -> Path:
    """Return a copy of a timings file with these entries changed for both operating systems."""
    plain = yaml.safe_load(timings.read_text(encoding="utf-8"))
    changed = {
        section: {**values, **(entries if section != "run" else {})}
        for section, values in plain.items()
    }
    path = folder / f"timings-{'-'.join(entries) or 'plain'}.yaml"
    path.write_text(yaml.safe_dump(changed), encoding="utf-8")
    return path


def node_pairs(where: Path, folder: Path, timings: Path, count: int) -> list[NodePair]:
    """Return this number of pairs of nodes (at most 4), ready for questions, on the lab of a
    kubeconfig (profile ten-nodes).

    Raise the error that prevents a pair from being ready, such as a machine that is too busy: it is
    no break of a probe.
    """
    directory = kubeconfig.lab_of(where)
    if directory is None:
        raise RuntimeError(f"{where} is no lab's")
    made: list[tuple[NodePair, Facts]] = []
    for number in range(1, count + 1):
        settings = Settings(
            timings=load_timings(timings, lab=True), run_id="table", worker=f"pair{number}"
        )
        kube = Kube(from_kubeconfig(where), settings.timings.run)
        facts = detect(kube, evidence="lab")
        changes = Changes(kube, Ownership(settings.run_id, settings.worker))
        pods = Pods(kube, changes, facts, settings)
        pair = NodePair(number, kube, changes, pods, settings, folder / f"pair{number}", directory / "control.sock",
                    "cluster.local")  # fmt: skip
        made.append((pair, facts))
    with ThreadPoolExecutor(max_workers=count) as threads:
        for began in [threads.submit(pair.begin, facts) for pair, facts in made]:
            began.result()
    return [pair for pair, _ in made]
