# SPDX-License-Identifier: Apache-2.0
"""Pods in the hosts of nodes: HostProcess on Windows, hostNetwork on Linux. A node's pod is created
when it is first requested.

The Windows pods belong to a DaemonSet for one node. Therefore a drain of the node does not evict
them, and they start even on a cordoned node.
"""

import re
import threading
from typing import Any

from conformance.errors import EnvironmentBroken, MissingCapability
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.model.endpoint import OS, Workload
from conformance.model.facts import NodeFacts
from conformance.pods.deploy import Pods, Wish
from conformance.pods.pod_changes import changed
from conformance.pods.roles import ROLES
from conformance.pods.tailor import SEAT
from conformance.timing import until

ROLE: dict[OS, str] = {"linux": "linux-node", "windows": "windows-host"}
REMEDY = "allow HostProcess pods (containerd 1.6, Kubernetes 1.23, privileged Pod Security in the run's -host namespaces)"
REFUSED = "FailedCreate"
"""The reason of the DaemonSet's event if its pods cannot be created."""
ADMISSION = re.compile(r"\bis forbidden\b|denied the request|violates PodSecurity|hostProcess")
"""Matches the event's message if admission refused the pod. Any other error (a webhook that does
not answer, a busy API server) may pass."""
UNABLE = re.compile(r"hostprocess|host process", re.IGNORECASE)
"""Matches the message of a container that cannot start because its node cannot run HostProcess
containers."""
CONTAINERD = re.compile(r"containerd://v?1\.[0-5]\.")
"""Matches the versions of containerd without HostProcess containers."""
SILENCE = "has no pod after"
"""The message if the DaemonSet has no pod within the time limit. Another request would only take as
long again."""
TRIES = 2
"""How often a HostProcess pod is requested, since a single error of a busy API server may pass."""


class HostPods:
    """Host pods of a worker. Thread-safe. If a pod has changed, it is looked up again."""

    def __init__(self, pods: Pods) -> None:
        self._pods = pods
        self._lock = threading.Lock()
        self._nodes: dict[str, threading.Lock] = {}
        self._there: dict[str, Workload] = {}
        self._silent: dict[str, EnvironmentBroken] = {}
        """Nodes on which no pod appeared in time, each with the error; no pod is requested there
        again."""

    @property
    def windows(self) -> list[str]:
        """Return the Windows nodes with a host pod."""
        return [name for name, pod in self._there.items() if pod.os == "windows"]

    def on(self, node: str) -> Workload:
        """Return the pod in a node's host.

        Raise MissingCapability if HostProcess pods are refused or cannot run. Raise
        EnvironmentBroken if this is still unknown after a second attempt, because a request failed,
        or a pod did not become ready.
        """
        with self._lock:
            one_at_a_time = self._nodes.setdefault(node, threading.Lock())
        with one_at_a_time:
            known = self._there.get(node)
            if known and not changed(
                known, self._pods.kube.find("v1", "Pod", known.pod, known.namespace)
            ):
                return known
            if broken := self._silent.get(node) or self._pods.watch.lost([node]):
                raise broken
            place = next(item for item in self._pods.facts.nodes if item.name == node)
            try:
                self._there[node] = (
                    self._windows(place)
                    if place.os == "windows"
                    else self._deployed(self._wish(place))
                )
            except EnvironmentBroken as error:
                if SILENCE in str(error):
                    self._silent[node] = error
                raise
            return self._there[node]

    def _wish(self, node: NodeFacts) -> Wish:
        number = [item.name for item in self._pods.facts.by_os(node.os)].index(node.name) + 1
        return Wish(role=ROLE[node.os], node=node, name=f"host-{ROLE[node.os]}-{number}")

    def _deployed(self, wish: Wish) -> Workload:
        return self._pods.deploy([wish])[wish.called]

    def _windows(self, node: NodeFacts) -> Workload:
        if node.container_runtime.startswith("docker") or CONTAINERD.match(node.container_runtime):
            raise MissingCapability(
                f"node {node.name} runs {node.container_runtime}, which has no HostProcess pods",
                REMEDY,
            )
        wish = self._wish(node)
        tries = 0
        while True:
            tries += 1
            try:
                self._pods.start(wish)
                self._admitted(wish)
                return self._deployed(wish)
            except (EnvironmentBroken, ApiRefused, ApiUnreachable) as error:
                what = f"no HostProcess pod runs on node {node.name}: {str(error).partition(chr(10))[0]}"
                if _refused(error):
                    raise MissingCapability(what, REMEDY) from error
                if tries == TRIES or SILENCE in what:
                    raise EnvironmentBroken(f"{what} ({tries} tries)") from error

    def _admitted(self, wish: Wish) -> None:
        """Wait until the DaemonSet has a pod.  Raise EnvironmentBroken with the refusal's text."""
        namespace = self._pods.host_namespace
        kube = self._pods.kube

        def state() -> tuple[int, str]:
            made: Any = kube.get("apps/v1", "DaemonSet", wish.called, namespace)
            refusals = [
                str(event.get("message") or "")
                for event in self._pods.changes.waits.events(made)
                if event.get("reason") == REFUSED
            ]
            return (
                len(kube.objects("v1", "Pod", namespace, labels=f"{SEAT}={wish.called}")),
                " ".join(refusals[-1].split()) if refusals else "",
            )

        patience = self._pods.settings.timings.of(ROLES[wish.role].os)
        settled = until(
            state,
            lambda found: bool(found[0] or found[1]),
            within=patience.pod_ready,
            every=patience.poll_every,
            description=f"DaemonSet {wish.called} has a pod",
        )
        count, refusal = settled.last
        if not count:
            raise EnvironmentBroken(
                refusal or f"DaemonSet {namespace}/{wish.called} {SILENCE} {settled.seconds:.0f} s"
            )


def _refused(error: Exception) -> bool:
    """Return whether the cluster refuses HostProcess pods; after any other error this is not
    known."""
    if isinstance(error, ApiRefused):
        return error.forbidden
    return bool(
        ADMISSION.search(str(error)) or ("cannot start" in str(error) and UNABLE.search(str(error)))
    )
