"""Restarting Felix on one node: its process is ended where that can be done, or its calico-node pod is deleted.

Done when the new pod is ready, which for Felix means a first full apply (win_dataplane.go, doneFirstApply), and when
whatever the caller knows to be good is good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from conformance.disrupt.felix_process import Processes
from conformance.disrupt.patience import PatienceOf
from conformance.errors import EnvironmentBroken, MissingCapability, ProbeBroken, first_line
from conformance.kube.client import Kube, Obj
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.kube.waits import is_ready, pod_state, restarts
from conformance.model.change import ObjectRef
from conformance.model.endpoint import OS
from conformance.model.facts import Facts
from conformance.timing import SYSTEM_CLOCK, Clock, until
from conformance.undo.journalling import Journalling

NAMESPACES = ("calico-system", "kube-system")
FELIX_RESTART = "felix-restart"
"""Name of the healer that waits for a Felix whose restart nobody saw the end of."""
LABEL: dict[OS, str] = {"linux": "k8s-app=calico-node", "windows": "k8s-app=calico-node-windows"}


@dataclass(frozen=True, kw_only=True)
class Restart:
    """A restart that was seen to happen."""

    node: str
    before: str
    """Pod, when it started, and its restarts."""
    after: str
    seconds: float
    """From the deletion to readiness."""
    note: str = ""
    """What else was seen: a node that was not Ready meanwhile, why the pod was deleted."""


class Felix:
    """Felix on the nodes of one cluster.  ``os_of`` says a node's operating system."""

    def __init__(
        self,
        kube: Kube,
        journal: Journalling,
        os_of: Callable[[str], OS],
        patience: PatienceOf,
        *,
        processes: Processes | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``processes``: sees and ends Felix' process on Windows; None: that is not possible here."""
        self._kube, self._journal, self._os_of = kube, journal, os_of
        self._patience, self._processes, self._clock = patience, processes, clock

    def restart(self, node: str, *, known_good: Callable[[], object] = lambda: None) -> Restart:
        """Restart Felix on a node; then ``known_good`` probes, and raises when the node is not well again.

        Raises MissingCapability (Felix runs in no pod), EnvironmentBroken (not ready in time), LockLost.
        """
        before = self.pod(node)
        meta = before["metadata"]
        target = ObjectRef(api_version="v1", kind="Pod", name=meta["name"], namespace=meta["namespace"])
        patience = self._patience(self._os_of(node))
        entry = self._journal.procedure(FELIX_RESTART, {"node": node}, f"Felix on node {node} is about to be restarted")
        self._journal.delete_owned_pod(target, f"restarts Felix on node {node}")
        watched = _Watched(self._kube, node)

        def look() -> list[Obj]:
            watched.look()
            return self._pods(node)

        settled = until(
            look,
            lambda pods: any(_moved(before, pod) and is_ready(pod) for pod in pods),
            within=patience.felix_restart,
            every=patience.poll_every,
            description=f"a new calico-node pod on node {node} is ready",
            clock=self._clock,
        )
        if not settled.converged:
            states = "; ".join(f"{_told(item)} {pod_state(item)}" for item in settled.last) or "no pod"
            raise EnvironmentBroken(
                f"Felix on node {node} is not back {settled.seconds:.0f} s after its pod {meta['name']} was deleted: "
                f"{states}"
            )
        after = next(item for item in settled.last if _moved(before, item) and is_ready(item))
        self._journal.close(entry)
        known_good()
        return Restart(node=node, before=_told(before), after=_told(after), seconds=settled.seconds, note=watched.note)

    def restart_each(self, nodes: Sequence[str]) -> list[Restart]:
        """Restart it alone on one node after the other: its process, or its pod where the process is out of reach.

        Raises as :meth:`restart`, and leaves the nodes after that alone.
        """
        return [self._restart_process(node) for node in nodes]

    def _restart_process(self, node: str) -> Restart:
        pod, processes = self.pod(node), self._processes
        if processes is None or self._os_of(node) != "windows":
            return self.restart(node)
        try:
            before = processes.ids(pod)
            if not before:
                raise ProbeBroken(f"no process of Felix is seen in pod {pod['metadata']['name']}")
            why = f"Felix on node {node} is about to be restarted"
            entry = self._journal.procedure(FELIX_RESTART, {"node": node}, why)
            processes.end(pod)
        except ProbeBroken as broken:
            return replace(self.restart(node), note=f"its pod was deleted, since {first_line(broken)}")
        watched = _Watched(self._kube, node)
        patience = self._patience("windows")

        def look() -> set[int]:
            """New processes, once one of them says that it is ready."""
            ready = watched.look()
            try:
                now = processes.ids(pod) - before
                return now if now and ready and processes.ready(pod) else set()
            except ProbeBroken:
                return set()

        settled = until(
            look, bool, within=patience.felix_restart, every=patience.poll_every,
            description=f"a new process of Felix on node {node} is ready", clock=self._clock,
        )  # fmt: skip
        name = pod["metadata"]["name"]
        if not settled.converged:
            raise EnvironmentBroken(
                f"Felix on node {node} is not back {settled.seconds:.0f} s after its process in pod {name} was ended; "
                f"{watched.note or 'the node stayed Ready'}"
            )
        self._journal.close(entry)
        return Restart(
            node=node, before=f"{name}, process {_listed(before)}", after=f"{name}, process {_listed(settled.last)}",
            seconds=settled.seconds, note=watched.note,
        )  # fmt: skip

    def back(self, node: str) -> None:
        """Wait until Felix runs on a node again, whatever was done to it.  Raises EnvironmentBroken."""
        patience = self._patience(self._os_of(node))
        settled = until(
            lambda: self._pods(node),
            lambda pods: bool(pods) and all(is_ready(pod) and not _ends(pod) for pod in pods),
            within=patience.felix_restart,
            every=patience.poll_every,
            description=f"Felix is ready on node {node}",
            clock=self._clock,
        )
        if not settled.converged:
            states = "; ".join(f"{_told(item)} {pod_state(item)}" for item in settled.last) or "no pod"
            raise EnvironmentBroken(f"Felix on node {node} is not back in {settled.seconds:.0f} s: {states}")

    def pod(self, node: str) -> Obj:
        """The pod that Felix runs in on a node.  Raises MissingCapability when there is none."""
        pods = self._pods(node)
        if not pods:
            raise MissingCapability(
                f"Felix on node {node} runs in no pod of {' or '.join(NAMESPACES)} ({LABEL[self._os_of(node)]})",
                "install Calico by its operator or manifests; services installed by hand cannot be restarted from here",
            )
        return pods[0]

    def _pods(self, node: str) -> list[Obj]:
        found = [
            pod
            for namespace in NAMESPACES
            for pod in self._kube.objects("v1", "Pod", namespace, labels=LABEL[self._os_of(node)])
            if pod["spec"].get("nodeName") == node
        ]
        return sorted(found, key=_ends)


class _Watched:
    """Whether a node stays Ready while Felix restarts there."""

    def __init__(self, kube: Kube, node: str) -> None:
        self._kube, self._node = kube, node
        self.note = ""

    def look(self) -> bool:
        """Whether it is Ready now; a node that cannot be read is taken for one that is."""
        try:
            found = self._kube.find("v1", "Node", self._node) or {}
        except (ApiRefused, ApiUnreachable):
            return True
        for condition in (found.get("status") or {}).get("conditions") or []:
            if condition.get("type") == "Ready" and condition.get("status") != "True":
                said = condition.get("message") or condition.get("reason") or "no message"
                self.note = f"node {self._node} was not Ready meanwhile: {said}"
                return False
        return True


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))


def _ends(pod: Obj) -> bool:
    """Whether a pod is on its way out."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def _moved(before: Obj, now: Obj) -> bool:
    """Whether the containers began anew: another pod, or restarted in place."""
    return bool(now["metadata"]["uid"] != before["metadata"]["uid"] or restarts(now) > restarts(before))


def _told(pod: Obj) -> str:
    started = (pod.get("status") or {}).get("startTime") or "not started"
    return f"{pod['metadata']['name']}, {started}, {restarts(pod)} restarts"


def os_of(facts: Facts) -> Callable[[str], OS]:
    """A node's operating system by its name."""
    systems = {node.name: node.os for node in facts.nodes}
    return systems.__getitem__
