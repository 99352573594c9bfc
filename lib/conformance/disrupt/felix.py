"""Restarting Felix on nodes: its process is ended where that can be done, or its calico-node pod is deleted, or its
service restarted where it is one of the host.

Done when the new pod is ready, which for Felix means a first full apply (win_dataplane.go, doneFirstApply), and when
what the caller knows to be good is good.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from conformance.disrupt.felix_process import Processes
from conformance.disrupt.felix_service import Services
from conformance.disrupt.patience import PatienceOf
from conformance.errors import (
    ControlBroken,
    EnvironmentBroken,
    MissingCapability,
    ProbeBroken,
    first_line,
)
from conformance.expect.subjects.witnesses import Restart
from conformance.journal.journalling import Journalling
from conformance.kube.client import Kube, Obj
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.kube.waits import is_ready, pod_state, restarts
from conformance.model.change import ObjectRef
from conformance.model.counted import counted
from conformance.model.endpoint import OS
from conformance.model.facts import Facts
from conformance.timing import SYSTEM_CLOCK, Clock, Settled, until

T = TypeVar("T")
NAMESPACES = ("calico-system", "kube-system")
FELIX_RESTART = "felix-restart"
"""Name of the healer that waits for a Felix whose restart nobody saw the end of."""
GONE_POLL = 0.1
"""s.  Between looks at a pod that ends: its successor may come at once, and what is to happen without it is short."""
LABEL: dict[OS, str] = {"linux": "k8s-app=calico-node", "windows": "k8s-app=calico-node-windows"}


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
        services: Services | None = None,
        clock: Clock = SYSTEM_CLOCK,
        claims: Sequence[str] = (),
        windows_pods: str = LABEL["windows"],
    ) -> None:
        """``claims``: of the test that restarts it, for messages.  ``windows_pods``: labels of its pods on Windows.

        ``processes``: sees and ends Felix' process in its pod on Windows; None: that is not possible here.

        ``services``: the same where Felix is a service of the host; None: it runs in pods here.
        """
        self._kube = kube
        self._journal = journal
        self._os_of = os_of
        self._patience = patience
        self._processes = processes
        self._services = services
        self._clock = clock
        self._claims = claims
        self._labels: dict[OS, str] = {**LABEL, "windows": windows_pods}

    def restart(self, node: str, *, known_good: Callable[[], object] = lambda: None) -> Restart:
        """Restart Felix on a node; then ``known_good`` probes, and raises when the node is not well again.

        Raises MissingCapability (Felix runs in no pod), EnvironmentBroken (not ready in time), LockLost.
        """
        done = self._done(self._end(node))
        known_good()
        return done

    def restart_around(self, nodes: Sequence[str], change: Callable[[], object]) -> list[Restart]:
        """Restart it by its pod on all of these nodes at once, and make a ``change`` while none of them has a Felix.

        Returns when all are ready again.  Raises as :meth:`restart`, what the change raises, and ControlBroken where a
        Felix was back too soon for the change to have been made without it.
        """
        begun = [self._end(node) for node in nodes]
        for restart in begun:
            self._gone(restart)
        change()
        early = [
            one.node
            for one in begun
            if any(_moved(one.pod, pod) and _runs(pod) for pod in self._pods(one.node))
        ]
        back = [self._done(restart) for restart in begun]
        if early:
            raise ControlBroken(
                f"Felix on node {', '.join(early)} was back before the change was made, which says nothing about a "
                "change that is made without it: run it again",
                control="Felix is down",
            )
        return back

    def restart_together(self, nodes: Sequence[str]) -> list[Restart]:
        """Restart it by its pod on all of these nodes at once, or, of a host's service, that.  Raises as above."""
        begun = [self._end(node) for node in nodes if not self._is_service(node)]
        services = [self._restart_service(node) for node in nodes if self._is_service(node)]
        return [*services, *map(self._done, begun)]

    def restart_each(self, nodes: Sequence[str]) -> list[Restart]:
        """Restart it alone on one node after the other: its process, or its pod where the process is out of reach.

        Where it is a service of the host, the service.  Raises as :meth:`restart`, and leaves the nodes after that
        alone.
        """
        return [
            self._restart_service(node) if self._is_service(node) else self._restart_process(node)
            for node in nodes
        ]

    def _is_service(self, node: str) -> bool:
        return (
            self._services is not None and self._os_of(node) == "windows" and not self._pods(node)
        )

    def _restart_service(self, node: str) -> Restart:
        services = self._services
        assert services is not None
        before = services.ids(node)
        if not before:
            raise MissingCapability(
                f"Felix on node {node} runs in no pod of {' or '.join(NAMESPACES)}, and its host has no process of it",
                "start Calico on the node",
            )
        entry = self._journal.procedure(
            FELIX_RESTART, {"node": node}, f"Felix on node {node} is about to be restarted"
        )
        try:
            services.restart(node)
        except MissingCapability:  # nothing was touched
            self._journal.close(entry)
            raise
        watched = _Watched(self._kube, node)

        def look() -> set[int]:
            """New processes, while the node is Ready."""
            ready = watched.look()
            try:
                return services.ids(node) - before if ready else set()
            except ProbeBroken:
                return set()

        settled = self._until(node, look, bool, f"a new process of Felix on node {node} runs")
        if not settled.converged:
            raise self._not_back(
                node,
                "a new process",
                f"none; {watched.note or 'the node stayed Ready'}",
                settled,
                f"read Felix' log on node {node}, and the service's state (Get-Service CalicoFelix)",
            )
        self._journal.close(entry)
        return Restart(
            node=node,
            before=f"service on {node}, process {_listed(before)}",
            after=f"service on {node}, process {_listed(settled.last)}",
            seconds=settled.seconds,
            note=watched.note,
        )

    def _restart_process(self, node: str) -> Restart:
        pod = self.pod(node)
        processes = self._processes
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
            return replace(
                self.restart(node), note=f"its pod was deleted, since {first_line(broken)}"
            )
        watched = _Watched(self._kube, node)

        def look() -> set[int]:
            """New processes, once one of them says that it is ready."""
            ready = watched.look()
            try:
                now = processes.ids(pod) - before
                return now if now and ready and processes.ready(pod) else set()
            except ProbeBroken:
                return set()

        settled = self._until(node, look, bool, f"a new process of Felix on node {node} is ready")
        name = pod["metadata"]["name"]
        if not settled.converged:
            raise self._not_back(
                node,
                f"a new process that is ready in pod {name}",
                f"none; {watched.note or 'the node stayed Ready'}",
                settled,
                f"kubectl logs {name} --all-containers",
            )
        self._journal.close(entry)
        return Restart(
            node=node,
            before=f"{name}, process {_listed(before)}",
            after=f"{name}, process {_listed(settled.last)}",
            seconds=settled.seconds,
            note=watched.note,
        )

    def _until(
        self,
        node: str,
        look: Callable[[], T],
        done: Callable[[T], bool],
        what: str,
        at_most: float = math.inf,
    ) -> Settled[T]:
        """Wait as long as a restart on a node may take; ``at_most`` seconds between two looks."""
        patience = self._patience(self._os_of(node))
        every = min(patience.poll_every, at_most)
        return until(
            look,
            done,
            within=patience.felix_restart,
            every=every,
            description=what,
            clock=self._clock,
        )

    def _end(self, node: str) -> _Begun:
        """Note that it is about to be restarted, and delete its pod."""
        before = self.pod(node)
        meta = before["metadata"]
        target = ObjectRef(
            api_version="v1", kind="Pod", name=meta["name"], namespace=meta["namespace"]
        )
        entry = self._journal.procedure(
            FELIX_RESTART, {"node": node}, f"Felix on node {node} is about to be restarted"
        )
        self._journal.delete_owned_pod(target, f"restarts Felix on node {node}")
        return _Begun(node, before, entry, self._clock.monotonic())

    def _done(self, begun: _Begun) -> Restart:
        """Wait until it is back.  Raises as :meth:`restart`."""
        after, seconds, note = self._successor(begun)
        return Restart(
            node=begun.node, before=_told(begun.pod), after=after, seconds=seconds, note=note
        )

    def _gone(self, begun: _Begun) -> None:
        """Wait until the old pod is gone.  Raises EnvironmentBroken."""
        node = begun.node
        uid = begun.pod["metadata"]["uid"]
        settled = self._until(
            node,
            lambda: self._pods(node),
            lambda pods: all(pod["metadata"]["uid"] != uid for pod in pods),
            f"the old calico-node pod on node {node} is gone",
            at_most=GONE_POLL,
        )
        if not settled.converged:
            raise EnvironmentBroken(
                f"pod {begun.pod['metadata']['name']} with Felix of node {begun.node} is still there "
                f"{settled.seconds:.0f} s after its deletion"
            )

    def _successor(self, begun: _Begun) -> tuple[str, float, str]:
        """Wait until a new pod is ready: which, seconds since the old one's deletion, what else was seen."""
        node = begun.node
        before = begun.pod
        watched = _Watched(self._kube, node)

        def look() -> list[Obj]:
            watched.look()
            return self._pods(node)

        settled = self._until(
            node,
            look,
            lambda pods: any(_moved(before, pod) and is_ready(pod) for pod in pods),
            f"a new calico-node pod on node {node} is ready",
        )
        if not settled.converged:
            states = "; ".join(f"{_told(pod)} {pod_state(pod)}" for pod in settled.last) or "no pod"
            name = before["metadata"]["name"]
            raise self._not_back(
                node,
                f"a Ready pod in place of {name}",
                states,
                settled,
                f"kubectl describe pods -n {before['metadata']['namespace']} -l {self._labels[self._os_of(node)]}; "
                "their logs",
            )
        # In a dry run there is no other pod.
        after = next((pod for pod in settled.last if _moved(before, pod) and is_ready(pod)), before)
        self._journal.close(begun.entry)
        return _told(after), self._clock.monotonic() - begun.at, watched.note

    def _not_back(
        self, node: str, expected: str, observed: str, settled: Settled[Any], do: str
    ) -> EnvironmentBroken:
        """What a Felix deserves that this suite has restarted and that is not back in time."""
        within = self._patience(self._os_of(node)).felix_restart
        claims = f"{', '.join(self._claims)}  " if self._claims else ""
        tries = f"{counted(len(settled.answers), 'try', 'tries')}, {settled.seconds:.1f} s"
        return EnvironmentBroken(
            f"{claims}Felix on node {node}  expected {expected} within {within:g} s of its restart by this suite, "
            f"observed {observed} ({tries})\n  do  {do}"
        )

    def back(self, node: str) -> None:
        """Wait until Felix runs on a node again, however it was stopped.

        Raises EnvironmentBroken; ProbeBroken, MissingCapability where a service cannot be looked at.
        """
        if self._is_service(node):
            self._service_back(node)
            return
        settled = self._until(
            node,
            lambda: self._pods(node),
            lambda pods: bool(pods) and all(is_ready(pod) and not _ends(pod) for pod in pods),
            f"Felix is ready on node {node}",
        )
        if not settled.converged:
            states = (
                "; ".join(f"{_told(item)} {pod_state(item)}" for item in settled.last) or "no pod"
            )
            raise EnvironmentBroken(
                f"Felix on node {node} is not back in {settled.seconds:.0f} s: {states}"
            )

    def _service_back(self, node: str) -> None:
        services = self._services
        assert services is not None
        settled = self._until(node, lambda: services.ids(node), bool, f"Felix runs on node {node}")
        if not settled.converged:
            raise EnvironmentBroken(
                f"Felix on node {node} is not back in {settled.seconds:.0f} s: no process of it"
            )

    def watched(self, node: str) -> Callable[[], str]:
        """What tells whether Felix of a node has ended since now, and what is there in its place; empty: it has not.

        Raises ProbeBroken, MissingCapability where nothing of it is seen.
        """
        before = self._life(node)

        def ended() -> str:
            try:
                now = self._life(node)
            except ProbeBroken:
                return ""  # its container begins anew, or PowerShell did not start: the next look tells
            return "" if now == before else f"{now} (it was {before})"

        return ended

    def _life(self, node: str) -> str:
        """What is another once Felix of a node has ended: felix-service.ps1 starts its process anew in the same pod."""
        if self._is_service(node):
            assert self._services is not None
            return f"process {_listed(self._services.ids(node)) or 'none'}"
        pod = self.pod(node)
        ids = self._processes.ids if self._processes and self._os_of(node) == "windows" else None
        return f"{_told(pod)}, process {_listed(ids(pod)) or 'none'}" if ids else _told(pod)

    def pod(self, node: str) -> Obj:
        """The pod that Felix runs in on a node.  Raises MissingCapability when there is none."""
        pods = self._pods(node)
        if not pods:
            raise MissingCapability(
                f"Felix on node {node} runs in no pod of {' or '.join(NAMESPACES)} ({self._labels[self._os_of(node)]})",
                "install Calico by its operator or manifests",
            )
        return pods[0]

    def _pods(self, node: str) -> list[Obj]:
        found = [
            pod
            for namespace in NAMESPACES
            for pod in self._kube.objects(
                "v1", "Pod", namespace, labels=self._labels[self._os_of(node)]
            )
            if pod["spec"].get("nodeName") == node
        ]
        return sorted(found, key=_ends)


@dataclass(frozen=True)
class _Begun:
    """A restart by a pod that was deleted."""

    node: str
    pod: Obj
    """The deleted one."""
    entry: Any
    """The journal's."""
    at: float
    """By the clock."""


class _Watched:
    """Whether a node stays Ready while Felix restarts there."""

    def __init__(self, kube: Kube, node: str) -> None:
        self._kube = kube
        self._node = node
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


def _runs(pod: Obj) -> bool:
    """Whether a container of a pod runs, so that a Felix may."""
    containers = (pod.get("status") or {}).get("containerStatuses") or []
    return any("running" in (status.get("state") or {}) for status in containers)


def _moved(before: Obj, now: Obj) -> bool:
    """Whether the containers began anew: another pod, or restarted in place."""
    return bool(
        now["metadata"]["uid"] != before["metadata"]["uid"] or restarts(now) > restarts(before)
    )


def _told(pod: Obj) -> str:
    started = (pod.get("status") or {}).get("startTime") or "not started"
    return f"{pod['metadata']['name']}, {started}, {restarts(pod)} restarts"


def os_of(facts: Facts) -> Callable[[str], OS]:
    """A node's operating system by its name."""
    return {node.name: node.os for node in facts.nodes}.__getitem__
