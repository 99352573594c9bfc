# SPDX-License-Identifier: Apache-2.0
"""The pods between which probing is measured: 3 Linux pods for every 2 Windows pods on a lab's
nodes, with and without policy."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from conformance.facts.detect import detect
from conformance.kube.access import from_kubeconfig
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import Ownership
from conformance.model.attempt import Attempt, Kind
from conformance.model.change import ObjectRef
from conformance.model.endpoint import Workload
from conformance.model.observation import Verdict
from conformance.pods.deploy import Pods, Wish
from conformance.probe.prober import Prober
from conformance.settings import Settings, Timings, load_timings

POLICIES = "networking.k8s.io/v1"
TOGETHER = 40
"""The number of pods that are deployed at once; the suite has as many threads that check
readiness."""


@dataclass
class Topology:
    """Running pods."""

    kube: Kube
    changes: Changes
    settings: Settings
    folder: Path
    pods: list[Workload]
    closed: frozenset[str]
    """The uids of the half of the pods that the policy ``half`` closes."""

    def allowed(self, policy: str, source: Workload, target: Workload) -> bool:
        """Return whether a policy allows a path; a pod always reaches itself."""
        return (
            policy == "open"
            or source is target
            or (policy == "half" and target.uid not in self.closed)
        )

    def enforce(self, policy: str) -> None:
        """Open all pods, close half of them, or close all; return when this is in effect."""
        namespace = self.changes.run.namespace
        selector: Obj = {} if policy == "denied" else {"matchLabels": {"half": "closed"}}
        body = {"podSelector": selector, "policyTypes": ["Ingress"]}
        obj = {
            "apiVersion": POLICIES,
            "kind": "NetworkPolicy",
            "metadata": {"name": "closed"},
            "spec": body,
        }
        if policy == "open":
            target = ObjectRef(
                api_version=POLICIES, kind="NetworkPolicy", name="closed", namespace=namespace
            )
            self.changes.delete(target, "all open")
        else:
            self.changes.apply(obj, policy, namespace=namespace)
        prober = Prober(self.kube, self.folder, self.settings)
        self.settle(prober, self.pods, policy)
        prober.close()

    def settle(self, prober: Prober, pods: Sequence[Workload], policy: str) -> None:
        """Wait until the paths from the first pod to all pods are as the policy demands."""
        asks = [
            Attempt(source=pods[0], kind=Kind.TCP, give_up_after=0.5, target=pod.tcp(8080))
            for pod in pods
        ]
        until = time.monotonic() + 30
        while True:
            seen = prober.observe(asks)
            if [observation.verdict is Verdict.CONNECTED for observation in seen] == [
                self.allowed(policy, pods[0], pod) for pod in pods
            ]:
                return
            if time.monotonic() > until:
                raise SystemExit(f"policy {policy} is not in effect after 30 s")

    def patient(self, give_up: float) -> Timings:
        """Return the lab's timings with another time-out of attempts; a denial is observed for a
        proportional time, as on real clusters."""
        field, timings = load_timings().windows, self.settings.timings
        share = give_up / field.tcp_give_up
        changed = {
            name: getattr(field, name) * share
            for name in ("tcp_give_up", "syn_again", "agree_span", "hold", "poll_every")
        }
        return replace(
            timings,
            linux=replace(timings.linux, **changed),
            windows=replace(timings.windows, **changed),
        )


def _closed(index: int) -> bool:
    return index % 2 == 1


def topology(kubeconfig: Path, folder: Path, count: int) -> Topology:
    """Return this number of ready pods on a lab."""
    plain = load_timings(lab=True)
    timings = replace(
        plain,
        linux=replace(
            plain.linux, exec_overhead=60.0, agent_hello=60.0, agent_slot=180.0, pod_ready=120.0
        ),
        windows=replace(
            plain.windows, exec_overhead=60.0, agent_hello=60.0, agent_slot=180.0, pod_ready=120.0
        ),
    )
    settings = Settings(timings=timings, run_id="harness", worker="main")
    kube = Kube(from_kubeconfig(kubeconfig), settings.timings.run)
    facts = detect(kube, evidence="lab")
    changes = Changes(kube, Ownership(settings.run_id, settings.worker))
    pods = Pods(kube, changes, facts, settings)
    nodes = {
        system: itertools.cycle([node for node in facts.by_os(system) if not node.taints])
        for system in ("linux", "windows")
    }
    wishes = []
    for index in range(count):
        system = "windows" if index % 5 in {1, 4} else "linux"
        labels = {"half": "closed" if _closed(index) else "open"}
        wishes.append(
            Wish(
                role=f"{system}-client",
                node=next(nodes[system]),
                name=f"pod-{index}",
                labels=labels,
            )
        )
    found: dict[str, Workload] = {}
    for start in range(0, count, TOGETHER):
        found |= pods.deploy(wishes[start : start + TOGETHER])
    running = [found[wish.called] for wish in wishes]
    closed = frozenset(workload.uid for index, workload in enumerate(running) if _closed(index))
    return Topology(kube, changes, settings, folder, running, closed)
