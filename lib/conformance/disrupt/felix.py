# SPDX-License-Identifier: Apache-2.0
"""Restarts Felix on nodes. Its process is ended if that is possible; otherwise its calico-node pod
is deleted, or its service on the host is restarted. A restart is complete when the new pod is ready
and the caller's own check succeeds. For Felix, ready means a first full apply (win_dataplane.go,
doneFirstApply)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from conformance.disrupt.felix_process import Processes
from conformance.disrupt.healer import Healer
from conformance.disrupt.patience import PatienceOf
from conformance.errors import (
    ControlBroken,
    EnvironmentBroken,
    MissingCapability,
    ProbeBroken,
    first_line,
)
from conformance.journal.journalling import Journalling
from conformance.kube.changes import pod_reference
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import list_at, value_at
from conformance.kube.pod_state import is_ready, pod_state, restarts
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.model.counted import counted
from conformance.model.endpoint import OS
from conformance.model.restart import Restart
from conformance.timing import SYSTEM_CLOCK, Clock, Settled, until

T = TypeVar("T")
NAMESPACES = ("calico-system", "kube-system")
FELIX_RESTART = Healer(
    name="felix-restart",
    why="Felix on node {node} is about to be restarted",
    undo=lambda parts, arguments: parts.felix.back(str(arguments["node"])),
)
"""The entry in the journal for a restart of Felix. If the run dies, nobody else may notice that
Felix has ended. Until Felix is back, policies do not change on the node."""
GONE_POLL = 0.1
"""The interval, in seconds, between two checks whether a pod has ended. It is short, since the next
pod may start at once, and the time without Felix is short."""
AROUND = 3
"""The maximum number of attempts to make a change while Felix does not run."""
LABEL: dict[OS, str] = {"linux": "k8s-app=calico-node", "windows": "k8s-app=calico-node-windows"}


class Felix:
    """Felix on the nodes of a cluster.  ``os_of`` returns a node's operating system."""

    def __init__(
        self,
        kube: Kube,
        journal: Journalling,
        os_of: Callable[[str], OS],
        patience: PatienceOf,
        *,
        processes: Processes | None = None,
        services: Processes | None = None,
        clock: Clock = SYSTEM_CLOCK,
        claims: Sequence[str] = (),
        windows_pods: str = LABEL["windows"],
    ) -> None:
        """Set up the restarts.

        ``claims``: claims of the test that restarts Felix, for messages. ``windows_pods``: labels
        of Felix' pods on Windows. ``processes``: reads and ends Felix' process in its pod on
        Windows; None: the process cannot be reached on this cluster. ``services``: reads and ends
        Felix where it is a service of the host; None: Felix runs in pods on this cluster.
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
        """Restart Felix on a node. Then call ``known_good``, which raises an error if the node does
        not work again.

        Raise MissingCapability (Felix runs in no pod), EnvironmentBroken (not ready in time),
        LockLost.
        """
        done = self._wait_until_ready(self._end(node, *self._note(node)))
        known_good()
        return done

    def restart_around(
        self,
        nodes: Sequence[str],
        change: Callable[[], object],
        *,
        undone: Callable[[], object] = lambda: None,
    ) -> list[Restart]:
        """Restart Felix, by deleting its pod, on all of these nodes at once, and make a ``change``
        while no Felix runs there. Return when Felix is ready again on all nodes.

        If Felix on a node is back before the change was made (the API server may be busy), the
        attempt shows nothing. Then ``undone`` reverts the change, and the attempt is repeated, at
        most :data:`AROUND` times in all. Raise ControlBroken if Felix was back too early each time.
        Errors of the two functions, and of :meth:`restart`, are passed on.
        """
        for left in reversed(range(AROUND)):
            back, early = self._restart_around(nodes, change)
            if not early:
                break
            if not left:
                raise ControlBroken(
                    f"Felix on node {', '.join(early)} was back before the change was made, "
                    f"{AROUND} times, so the change without Felix was not tested: run the test "
                    "again",
                    control="Felix is down",
                )
            undone()
        return back

    def _restart_around(
        self, nodes: Sequence[str], change: Callable[[], object]
    ) -> tuple[list[Restart], list[str]]:
        """Restart Felix on the nodes and make the change in between. Return the restarts, and the
        nodes on which Felix was back too early."""
        begun = [self._end(*noted) for noted in [(node, *self._note(node)) for node in nodes]]
        for restart in begun:
            self._wait_until_gone(restart)
        change()
        early = [
            restart.node
            for restart in begun
            if any(_moved(restart.pod, pod) and _runs(pod) for pod in self._pods(restart.node))
        ]
        return [self._wait_until_ready(restart) for restart in begun], early

    def restart_together(self, nodes: Sequence[str]) -> list[Restart]:
        """Restart Felix on all of these nodes at once, by its pod or by the host's service. Raise
        as :meth:`restart` does."""
        in_hosts = [node for node in nodes if self._service_of(node)]
        begun = [self._end(node, *self._note(node)) for node in nodes if node not in in_hosts]
        return [*self.restart_each(in_hosts), *map(self._wait_until_ready, begun)]

    def restart_each(self, nodes: Sequence[str]) -> list[Restart]:
        """Restart Felix on one node after the other: by its process, by its pod if the process
        cannot be reached, or by the host's service.

        Raise as :meth:`restart` does; after an error, Felix is not restarted on the remaining
        nodes.
        """
        return [self._restart_alone(node) for node in nodes]

    def _service_of(self, node: str) -> Processes | None:
        """Return the processes of Felix on a node where Felix is a service of the host; None
        elsewhere."""
        if self._services is None or self._os_of(node) != "windows" or self._pods(node):
            return None
        return self._services

    def _restart_alone(self, node: str) -> Restart:
        if services := self._service_of(node):
            nothing = MissingCapability(
                f"Felix on node {node} runs in no pod of {' or '.join(NAMESPACES)}, and no process "
                "of Felix runs on the host",
                "start Calico on the node",
            )
            do = (
                f"read Felix' log on node {node}, and the service's state (Get-Service CalicoFelix)"
            )
            return self._restart_process(
                node, _Place(services, node, f"service on {node}", "", nothing, do)
            )
        pod = self.pod(node)
        if self._processes is None or self._os_of(node) != "windows":
            return self.restart(node)
        name = pod["metadata"]["name"]
        none = ProbeBroken(f"no process of Felix is found in pod {name}")
        do = f"kubectl logs {name} --all-containers"
        place = _Place(self._processes, pod, name, f" that is ready in pod {name}", none, do)
        try:
            return self._restart_process(node, place)
        except ProbeBroken as broken:
            return replace(
                self.restart(node), note=f"its pod was deleted, since {first_line(broken)}"
            )

    def _restart_process(self, node: str, place: _Place) -> Restart:
        """Restart Felix' process without its pod. Raise ProbeBroken or MissingCapability if the
        process was not ended."""
        before = place.processes.ids(place.where)
        if not before:
            raise place.none
        entry = FELIX_RESTART.note(self._journal, node)
        try:
            place.processes.end(place.where)
        except MissingCapability:  # nothing was touched
            self._journal.close(entry)
            raise
        watched = _Watched(self._kube, node)

        def look() -> set[int]:
            """Return new Felix processes once Felix reports ready and the node is Ready; an empty
            set before that."""
            ready = watched.look()
            try:
                now = place.processes.ids(place.where) - before
                return now if now and ready and place.processes.ready(place.where) else set()
            except ProbeBroken:
                return set()

        settled = self._until(node, look, bool, f"a new process of Felix on node {node} runs")
        if not settled.converged:
            raise self._not_back(
                node,
                f"a new process{place.ready}",
                f"none; {watched.note or 'the node stayed Ready'}",
                settled,
                place.do,
            )
        self._journal.close(entry)
        return Restart(
            node=node,
            before=f"{place.label}, process {_listed(before)}",
            after=f"{place.label}, process {_listed(settled.last)}",
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
        """Wait until ``done``, for as long as a restart on this node may take. Check at least every
        ``at_most`` seconds."""
        patience = self._patience(self._os_of(node))
        return until(
            look,
            done,
            within=patience.felix_restart,
            every=min(patience.poll_every, at_most),
            description=what,
            clock=self._clock,
        )

    def _note(self, node: str) -> tuple[Obj, Any]:
        """Record that Felix is about to be restarted; return its pod and the journal's entry."""
        return self.pod(node), FELIX_RESTART.note(self._journal, node)

    def _end(self, node: str, before: Obj, entry: Any) -> _BegunRestart:
        """Delete Felix' pod on a node."""
        self._journal.delete_owned_pod(pod_reference(before), f"restarts Felix on node {node}")
        return _BegunRestart(node, before, entry, self._clock.monotonic())

    def _wait_until_gone(self, begun: _BegunRestart) -> None:
        """Wait until the old pod is gone.  Raise EnvironmentBroken."""
        uid = begun.pod["metadata"]["uid"]
        settled = self._until(
            begun.node,
            lambda: self._pods(begun.node),
            lambda pods: all(pod["metadata"]["uid"] != uid for pod in pods),
            f"the old calico-node pod on node {begun.node} is gone",
            at_most=GONE_POLL,
        )
        if not settled.converged:
            raise EnvironmentBroken(
                f"pod {begun.pod['metadata']['name']} with Felix of node {begun.node} is still there "
                f"{settled.seconds:.0f} s after its deletion"
            )

    def _wait_until_ready(self, begun: _BegunRestart) -> Restart:
        """Wait until a new pod is ready. Raise as :meth:`restart` does."""
        node = begun.node
        before = begun.pod
        watched = _Watched(self._kube, node)

        def look() -> list[Obj]:
            watched.look()
            return self._pods(node)

        def new(pods: Sequence[Obj]) -> list[Obj]:
            return [pod for pod in pods if _moved(before, pod) and is_ready(pod)]

        settled = self._until(
            node,
            look,
            lambda pods: bool(new(pods)),
            f"a new calico-node pod on node {node} is ready",
        )
        if not settled.converged:
            name = before["metadata"]["name"]
            raise self._not_back(
                node,
                f"a Ready pod in place of {name}",
                _states(settled.last),
                settled,
                f"kubectl describe pods -n {before['metadata']['namespace']} -l {self._labels[self._os_of(node)]}; "
                "their logs",
            )
        self._journal.close(begun.entry)
        after = [*new(settled.last), before][0]  # in a dry run there is no other pod
        return Restart(
            node=node,
            before=_describe(before),
            after=_describe(after),
            seconds=self._clock.monotonic() - begun.at,
            note=watched.note,
        )

    def _not_back(
        self, node: str, expected: str, observed: str, settled: Settled[Any], do: str
    ) -> EnvironmentBroken:
        """Return the error for a Felix that is not back in time after this suite restarted it."""
        within = self._patience(self._os_of(node)).felix_restart
        claims = f"{', '.join(self._claims)}  " if self._claims else ""
        tries = f"{counted(len(settled.answers), 'try', 'tries')}, {settled.seconds:.1f} s"
        return EnvironmentBroken(
            f"{claims}Felix on node {node}  expected {expected} within {within:g} s of its restart by this suite, "
            f"observed {observed} ({tries})\n  do  {do}"
        )

    def back(self, node: str) -> None:
        """Wait until Felix runs on a node again, for whatever reason it ended. Raise
        EnvironmentBroken if Felix does not come back, ProbeBroken or MissingCapability if a service
        cannot be read."""
        services = self._service_of(node)

        def missing() -> str:
            if services:
                return "" if services.ids(node) else "no process of Felix runs"
            pods = self._pods(node)
            if pods and all(is_ready(pod) and not _ends(pod) for pod in pods):
                return ""
            return _states(pods)

        settled = self._until(
            node, missing, lambda lack: not lack, f"Felix is ready on node {node}"
        )
        if not settled.converged:
            raise EnvironmentBroken(
                f"Felix on node {node} is not back within {settled.seconds:.0f} s: {settled.last}"
            )

    def watched(self, node: str) -> Callable[[], str]:
        """Return a function that reports whether Felix on a node has ended since this call. The
        function returns a description of the new pod or process of Felix, or an empty string if
        Felix has not ended.

        Raise ProbeBroken, or MissingCapability if Felix cannot be observed.
        """
        before = self._life(node)

        def ended() -> str:
            try:
                now = self._life(node)
            except ProbeBroken:
                # the container is starting again, or PowerShell did not start: the caller will
                # check again
                return ""
            return "" if now == before else f"{now} (it was {before})"

        return ended

    def _life(self, node: str) -> str:
        """Return a text that changes once Felix has ended on a node.

        The pod alone does not show this: felix-service.ps1 starts a new process in the same pod.
        """
        if services := self._service_of(node):
            return f"process {_listed(services.ids(node)) or 'none'}"
        pod = self.pod(node)
        ids = self._processes.ids if self._processes and self._os_of(node) == "windows" else None
        return f"{_describe(pod)}, process {_listed(ids(pod)) or 'none'}" if ids else _describe(pod)

    def pod(self, node: str) -> Obj:
        """Return the pod that Felix runs in on a node.  Raise MissingCapability if there is no such
        pod."""
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
class _Place:
    """The way to restart Felix without its pod."""

    processes: Processes
    where: Any
    """The pod, or the node's name, in the form that ``processes`` takes."""
    label: str
    ready: str
    """The condition, as a text, that a process must fulfil besides being new."""
    none: Exception
    """The error to raise if no process is found."""
    do: str
    """The advice to the user if no new process appears."""


@dataclass(frozen=True)
class _BegunRestart:
    """A restart for which the pod was deleted."""

    node: str
    pod: Obj
    """The deleted pod."""
    entry: Any
    """The journal's entry."""
    at: float
    """The time of the deletion, by the clock."""


class _Watched:
    """Watches whether a node stays Ready while Felix restarts there."""

    def __init__(self, kube: Kube, node: str) -> None:
        self._kube = kube
        self._node = node
        self.note = ""

    def look(self) -> bool:
        """Check whether the node is Ready now; a node that cannot be read counts as Ready."""
        found: Obj = {}
        with suppress(ApiRefused, ApiUnreachable):
            found = self._kube.find("v1", "Node", self._node) or {}
        for condition in list_at(found, "status", "conditions"):
            if condition.get("type") == "Ready" and condition.get("status") != "True":
                detail = condition.get("message") or condition.get("reason") or "no message"
                self.note = f"node {self._node} was not Ready meanwhile: {detail}"
                return False
        return True


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))


def _ends(pod: Obj) -> bool:
    """Return whether a pod is being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def _runs(pod: Obj) -> bool:
    """Return whether any container of a pod runs, so that Felix may run."""
    return any(
        "running" in (status.get("state") or {})
        for status in list_at(pod, "status", "containerStatuses")
    )


def _moved(before: Obj, now: Obj) -> bool:
    """Return whether the containers were started again: in another pod, or by a restart in
    place."""
    return bool(
        now["metadata"]["uid"] != before["metadata"]["uid"] or restarts(now) > restarts(before)
    )


def _states(pods: Iterable[Obj]) -> str:
    return "; ".join(f"{_describe(pod)} {pod_state(pod)}" for pod in pods) or "no pod"


def _describe(pod: Obj) -> str:
    started = value_at(pod, "status", "startTime") or "not started"
    return f"{pod['metadata']['name']}, {started}, {restarts(pod)} restarts"
