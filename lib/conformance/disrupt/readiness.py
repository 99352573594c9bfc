# SPDX-License-Identifier: Apache-2.0
"""Checks after each disruptive test that nodes and system workloads are Ready again. Pods of
DaemonSets and static pods count on each node, since a pod on another node is no substitute. A
Deployment or StatefulSet needs as many Ready pods as before, on any nodes. If it has fewer pods
now, all of them must be Ready. Pods are not compared by name, since an evicted pod comes back under
another name."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from conformance.disrupt.awaiting import until_nothing_is_missing
from conformance.kube.changes import Changes
from conformance.kube.client import Obj
from conformance.kube.node_conditions import not_ready
from conformance.kube.pod_state import is_ready, pod_state
from conformance.pods.third_party import controller, is_own, label
from conformance.timing import SYSTEM_CLOCK, Clock

SYSTEM = ("kube-", "calico-", "tigera-", "openshift-")
"""Beginnings of the names of system namespaces."""
PRIORITY = "system-"
"""Beginning of the priority classes of system workloads: system-cluster-critical,
system-node-critical."""


class Readiness:
    """The objects that were Ready before a test. ``within``: the seconds until they must be Ready
    again."""

    def __init__(
        self,
        changes: Changes,
        folder: Path,
        worker: str,
        *,
        within: float,
        every: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Set up the check. ``folder``: the folder in which the run's processes record the objects
        that they found Ready, so that the records survive a worker that dies."""
        self._changes = changes
        self._kube = changes.kube
        self._file = folder / f"{worker}.json"
        self._within = within
        self._every = every
        self._clock = clock

    def before(self) -> None:
        """Record which objects are Ready. Raise EnvironmentBroken if an object is not Ready now
        that was Ready before an earlier test of the run.
        """
        if self._changes.dry_run:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._file.parent.glob("*.json")):
            self._await(path)
        self._note(self._look()[0])

    def after(self) -> None:
        """Wait until every recorded object is Ready again. Raise EnvironmentBroken with the names
        of objects that are not."""
        reach = self._kube.reach
        if (
            self._changes.dry_run or reach.ended or reach.left < float("inf")
        ):  # no requests are allowed, or time is short
            return
        self._await(self._file)
        self._note({})

    def _note(self, ready: Mapping[str, int]) -> None:
        """Replace this worker's record in one step, so that no reader finds half of it."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(ready))
        fresh.replace(self._file)

    def _await(self, path: Path) -> None:
        noted: dict[str, int] = json.loads(path.read_text())
        until_nothing_is_missing(
            lambda: list(self._missing(noted)),
            within=self._within,
            every=self._every,
            clock=self._clock,
            description="nodes and system workloads are Ready again",
            late="nodes or system workloads that were Ready before a disruptive test are not Ready again",
        )

    def _missing(self, noted: Mapping[str, int]) -> Iterator[str]:
        ready, unready = self._look()
        for name, count in noted.items():
            whole = ready[name] and name not in unready and " on node " not in name
            if ready[name] < count and not whole:
                yield f"{name} {unready.get(name, 'is gone')}"

    def _look(self) -> tuple[Counter[str], dict[str, str]]:
        """Return the number of Ready pods of each system workload, and the objects that are not
        Ready; a Ready node counts 1."""
        ready = Counter[str]()
        unready = dict[str, str]()
        for node in self._kube.objects("v1", "Node"):
            name = f"node {node['metadata']['name']}"
            if why := not_ready(node):
                unready[name] = f"is not Ready: {why}"
            else:
                ready[name] += 1
        for pod in filter(_is_system, self._kube.objects("v1", "Pod")):
            if is_ready(pod):
                ready[_workload(pod)] += 1
            else:
                unready[_workload(pod)] = f"is not Ready: pod {label(pod)} {pod_state(pod)}"
        return ready, unready


def _is_system(pod: Obj) -> bool:
    """Return whether a pod belongs to a workload that runs the cluster. Pods of Jobs do not count:
    they end, and are never Ready again."""
    system = str(pod["spec"].get("priorityClassName") or "").startswith(PRIORITY)
    in_system = system or str(pod["metadata"]["namespace"]).startswith(SYSTEM)
    return in_system and not is_own(pod) and (controller(pod) or {}).get("kind") != "Job"


def _workload(pod: Obj) -> str:
    """Return ``DaemonSet kube-system/kube-proxy on node linux-1``, ``Deployment
    kube-system/coredns``.
    """
    meta = pod["metadata"]
    owner = controller(pod) or {"kind": "Pod", "name": pod["metadata"]["name"]}
    if owner["kind"] == "Node":
        return f"static pod {label(pod)} on node {pod['spec'].get('nodeName')}"
    name = f"{owner['kind']} {meta['namespace']}/{owner['name']}"
    if owner["kind"] == "DaemonSet":
        return f"{name} on node {pod['spec'].get('nodeName')}"
    revision = (meta.get("labels") or {}).get("pod-template-hash")
    return (
        name.replace("ReplicaSet", "Deployment", 1).removesuffix(f"-{revision}")
        if revision
        else name
    )
