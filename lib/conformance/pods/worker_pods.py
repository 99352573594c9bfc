# SPDX-License-Identifier: Apache-2.0
"""The pods that a worker's tests share. They are deployed when a test first requests them, and kept
until the worker's end.

A role has a pod on each covered node of its OS. The pod's place is called a seat and is named by
the role and the node's number (``windows-server-2``). Each pod is deployed in a thread of its own,
so that tests wait only for the pods that they request.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Literal

from conformance.errors import EnvironmentBroken, Nonconformance, SuiteError
from conformance.kube import prepared
from conformance.kube.client import Obj
from conformance.kube.pod_state import is_ready
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision, decision_on
from conformance.model.endpoint import OS, Workload
from conformance.model.facts import NodeFacts
from conformance.pods.deploy import Pods, Wish
from conformance.pods.groups import Group, PodPairs
from conformance.pods.placement import Placement
from conformance.pods.pod_changes import changed, there_now
from conformance.pods.roles import ROLES
from conformance.pods.starting import decision_on_failure, verdict_on
from conformance.pods.tailor import SEAT

__tracebackhide__ = True  # a failure shows the line of the test instead of this module's

ELSEWHERE = "elsewhere"
"""Prefix of names of pods in the worker's second namespace: ``elsewhere/linux-client``."""
DEMO = ("linux-client", "linux-server", "windows-client", "windows-server")
"""Roles that are started together, since a test that uses one role uses the others, too."""
ASKS_FOR_DEMO = frozenset({"clients", "servers", "client", "server", "placed_around"})
"""Methods by which tests request the roles of :data:`DEMO`."""

Place = Literal["same node", "a Linux node", "another Windows node"]
"""The place of a server, relative to a client's Windows node."""

LOOK_AT_NODES = 5.0
"""The interval, in seconds, between two checks whether covered nodes are alive, if there is no sign
of a problem."""


class WorkerPods:
    """Pods by role (``windows-server``), including those in the second namespace
    (``elsewhere/windows-client``)."""

    def __init__(
        self,
        pods: Pods,
        placement: Placement,
        warm: Callable[[Workload], None] = lambda client: None,
    ) -> None:
        """Set up the pods. ``warm`` waits until a new pod that serves as a client has a network."""
        self._pods = pods
        self._placement = placement
        self._warm = warm
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(max_workers=32, thread_name_prefix="deploy")
        self._work: dict[str, Future[Workload]] = {}
        self._gone: dict[str, NodeFacts] = {}
        """Covered nodes that died."""
        self._nodes_looked_at = 0.0
        """The time of the last check of the nodes, by ``time.monotonic``."""
        self._warmth: dict[str, Future[None]] = {}
        self._lost: dict[str, Workload] = {}
        """Pods as they were before they changed."""
        self.used: dict[str, Workload] = {}
        """The pods that the running test has requested; empty at a test's start."""
        self.claims: tuple[str, ...] = ()
        """The claims of the running test."""
        self.systems: tuple[OS, ...] = ("linux", "windows")
        """Operating systems of the demo's pods that are started together: the systems that the
        running test is about."""
        self.keep: Callable[[Sequence[Decision]], object] = lambda decisions: None
        """Stores the decisions of the running test; the code that starts a test sets it."""

    @property
    def namespace(self) -> str:
        """Return the namespace of the pods, except pods in the second namespace and pods in a
        node's network."""
        return self._pods.namespace

    @property
    def namespace_elsewhere(self) -> str:
        """Return the worker's second namespace."""
        return f"{self._pods.namespace}-{ELSEWHERE}"

    def clients(self, os: OS) -> Group:
        """Return the demo's clients of an OS, one on each covered node."""
        return self._group(f"{os}-client")

    def servers(self, os: OS) -> Group:
        """Return the demo's servers of an OS, one on each covered node."""
        return self._group(f"{os}-server")

    def elsewhere(self, os: OS) -> Group:
        """Return clients in the second namespace, one on each covered node, with the labels of the
        demo's clients."""
        return self._group(f"{ELSEWHERE}/{os}-client")

    def nodes(self) -> Group:
        """Return pods in the network of each covered Linux node, which stand for the nodes as
        sources."""
        return self._group("linux-node")

    def get(self, *names: str) -> tuple[Workload, ...]:
        """Return one pod for each of these roles, on the worker's first node of its OS, or the
        pods of these seats.

        Missing pods are deployed at once. A deployment's error is raised to every test that
        requests the pod; no further attempt is made.
        """
        seats = [
            self._seats(name)[0] if name.rpartition("/")[2] in ROLES else name for name in names
        ]
        found = self._deployed(seats)
        for seat in seats:
            self._warmth[seat].result()
        return found

    def client(self, os: OS) -> Workload:
        """Return one of the demo's clients of an OS, for tests that need a single client."""
        return self.get(f"{os}-client")[0]

    def server(self, os: OS) -> Workload:
        """Return one of the demo's servers of an OS, for tests that need a single server."""
        return self.get(f"{os}-server")[0]

    def node(self) -> Workload:
        """Return a pod in the network of a Linux node, for tests that need a single such pod."""
        return self.get("linux-node")[0]

    def placed_around(self, nodes: Sequence[str], place: Place) -> PodPairs:
        """Return a client on each of these Windows nodes with a server at the given place. Raise
        MissingCapability."""
        clients = self.clients("windows").at(*nodes)
        if place == "a Linux node":
            return clients.to([self.servers("linux").first])
        if place == "same node":
            return clients.beside(self.servers("windows"))
        return clients.across(self.servers("windows"))

    def start(self, *roles: str, because: str) -> Group:
        """Deploy all pods of these roles for a test about starting: a pod that is not ready is a
        Nonconformance.

        This start confirms nothing yet; ``expect.started`` does. An image that cannot be pulled, a
        container that crashes (even after its pod was ready), and a cluster without room are each
        EnvironmentBroken. The pods are not probed, so that only their start is judged.
        """
        work = {
            seat: self._start(seat)
            for seat in [seat for role in roles for seat in self._seats(role)]
        }
        wait(work.values())
        verdicts: list[Exception] = []
        for seat, future in work.items():
            error = future.exception()
            if error is None:
                continue
            if not isinstance(error, EnvironmentBroken):
                raise error
            verdict = verdict_on(
                self._pods_of(seat), error, self.claims, because, self._pods.changes.waits.events
            )
            self._failed(seat, verdict)
            verdicts.insert(0 if isinstance(verdict, Nonconformance) else len(verdicts), verdict)
        verdicts += self._ready_no_more(work)
        if verdicts:
            raise verdicts[0].with_traceback(
                None
            ) from None  # the traceback of the wait shows nothing useful
        self.used |= {seat: future.result() for seat, future in work.items()}
        return Group(future.result() for future in work.values())

    def _ready_no_more(self, work: Mapping[str, Future[Workload]]) -> list[Exception]:
        """Return an error for each pod that was ready and has since crashed or disappeared."""
        found = {seat: future.result() for seat, future in work.items() if not future.exception()}
        now = there_now(self._pods.kube, found.values())
        errors = {
            seat: EnvironmentBroken(f"{why}, after it was ready")
            for seat, workload in found.items()
            if (why := changed(workload, now.get((workload.namespace, workload.pod))))
        }
        for seat, error in errors.items():
            self._failed(seat, error)
        return list(errors.values())

    def start_demo(self) -> None:
        """Deploy the demo's pods of :attr:`systems` and wait for them, before a test's own time
        begins.

        Raise nothing: each test that requests a pod gets the error of its deployment.
        """
        seats = [seat for role in self._demo() for seat in self._seats(role)]
        wait([self._start(seat) for seat in seats])
        wait([self._warmth[seat] for seat in seats])

    def ensure_ready(self, *roles: str) -> Group:
        """Return all pods of these roles, once they are ready. This is for a test that only reads
        facts about them, even if their network fails.

        Raise the deployment's errors: if a pod does not start, nothing can be read about it.
        """
        return Group(self._deployed([seat for role in roles for seat in self._seats(role)]))

    def seat_of(self, workload: Workload) -> str:
        """Return the seat for which a pod was deployed, which is its label ``conformance/seat``."""
        name = next(
            name
            for name, work in self._work.items()
            if work.done() and not work.exception() and work.result().uid == workload.uid
        )
        return name.rpartition("/")[2]

    def revalidate(self) -> None:
        """Check the pods again, since an exclusive test may have changed them. Later callers get
        the new pods.

        Return as soon as the changed pods are known. If a changed pod has no successor in time,
        tests that request it raise EnvironmentBroken. The successor is searched for again after the
        next exclusive test.
        """
        self._look_again(patient=True)

    def refresh(self) -> None:
        """Check the pods before each test, as :meth:`revalidate` does, so that a restarted pod
        spoils no later test.

        This costs one request per namespace. No test waits a second time for a pod without a
        successor.
        """
        self._look_again(patient=False)

    def under_way(self) -> list[Future[Any]]:
        """Return the deployments and warm-ups that are still running."""
        with self._lock:
            work: list[Future[Any]] = [*self._work.values(), *self._warmth.values()]
        return [future for future in work if not future.done()]

    def close(self) -> None:
        """Wait for deployments under way, and start no more of them."""
        self._threads.shutdown(wait=True)

    def _group(self, role: str) -> Group:
        """Return the pods of a role that exist and have a network. The decisions on nodes without
        such a pod become inconclusive.

        Raise the first error if there is no such pod.
        """
        self._leave_lost(ROLES[role.rpartition("/")[2]].os)
        seats = self._seats(role)
        work = self._begun(seats)
        wait(work)
        found: dict[str, Workload] = {}
        errors: list[BaseException] = []
        for seat, future in zip(seats, work, strict=True):
            error = future.exception() or self._warmth[seat].exception()
            if error is None:
                found[seat] = future.result()
                continue
            errors.append(error)
            if not isinstance(error, SuiteError):
                raise error
            self._failed(seat, error)
        if not found:
            raise errors[0]
        self.used |= found
        return Group(found.values())

    def _leave_lost(self, os: OS) -> None:
        """Stop using nodes that died; a test's decisions on them are undecided."""
        systems: tuple[OS, ...] = ("linux", "windows")
        covered = {
            item.node.name: item.node for each in systems for item in self._placement.coverage(each)
        }
        if time.monotonic() - self._nodes_looked_at > LOOK_AT_NODES:
            lost = self._pods.watch.lost_among(covered)
            self._placement.lost |= lost
            self._gone |= {name: covered[name] for name in lost}
            self._nodes_looked_at = time.monotonic()
        for name, node in self._gone.items():
            if node.os == os:
                self.keep(
                    [
                        decision_on(
                            node, ClaimVerdict.INCONCLUSIVE, self._placement.lost[name], "behaviour"
                        )
                    ]
                )

    def _failed(self, seat: str, error: BaseException) -> None:
        self.keep([decision_on_failure(self._wish(seat).node, error)])

    def _seats(self, role: str) -> list[str]:
        """Return the seats of a role on each covered node, the worker's first node first."""
        os = ROLES[role.rpartition("/")[2]].os
        return [
            f"{role}-{self._placement.number(node.name)}" for node in self._placement.covered(os)
        ]

    def _look_again(self, *, patient: bool) -> None:
        with self._lock:
            done = {name: work for name, work in self._work.items() if work.done()}
            there = {name: work.result() for name, work in done.items() if not work.exception()}
            lost = {
                name: workload
                for name, workload in self._lost.items()
                if name in done and name not in there
            }
            now = there_now(self._pods.kube, [*there.values(), *lost.values()])
            for name, workload in there.items():
                if why := changed(workload, now.get((workload.namespace, workload.pod))):
                    self._look_for_successor(name, workload, why)
            for name, workload in lost.items():
                if patient or self._has_successor(name, workload, now):
                    why = changed(workload, now.get((workload.namespace, workload.pod)))
                    why = why or f"pod {workload.label} was not ready"
                    self._look_for_successor(name, workload, why)

    def _has_successor(
        self, name: str, workload: Workload, now: Mapping[tuple[str, str], Obj]
    ) -> bool:
        """Return whether a pod of a seat is ready, in the namespace of the pod that was lost."""
        called = self._wish(name).called
        return any(
            namespace == workload.namespace
            and is_ready(pod)
            and (pod["metadata"].get("labels") or {}).get(SEAT) == called
            for (namespace, _), pod in now.items()
        )

    def _look_for_successor(self, name: str, workload: Workload, why: str) -> None:
        self._lost[name] = workload
        self._work[name] = self._threads.submit(self._pods.again, self._wish(name), why)
        self._warmth[name] = self._threads.submit(self._warm_up, self._work[name])

    def _deployed(self, seats: Sequence[str]) -> tuple[Workload, ...]:
        work = self._begun(seats)
        wait(work)
        found = tuple(future.result() for future in work)
        self.used |= dict(zip(seats, found, strict=True))
        return found

    def _begun(self, seats: Sequence[str]) -> list[Future[Workload]]:
        """Start the deployment of these seats and return its futures.

        If one of them is a pod of the demo, start the demo's other pods too, since the test will
        request them.
        """
        work = [self._start(name) for name in seats]
        if {self._role(name) for name in seats if "/" not in name} & set(DEMO):
            for role in self._demo():
                for name in self._seats(role):
                    self._start(name)
        return work

    def _demo(self) -> list[str]:
        """Return the demo's roles that the running test is about, if a node can have them."""
        found = [(role, ROLES[role].os) for role in DEMO]
        return [role for role, os in found if os in self.systems and self._placement.coverage(os)]

    def _start(self, name: str) -> Future[Workload]:
        with self._lock:
            if name not in self._work:
                self._prepare(name)
                self._work[name] = self._threads.submit(self._deploy, name)
                self._warmth[name] = self._threads.submit(self._warm_up, self._work[name])
            return self._work[name]

    def _prepare(self, name: str) -> None:
        """Create a pod's namespace now, so that several threads do not create it at once."""
        if ROLES[self._role(name)].host_network:
            self._pods.prepare(self._pods.host_namespace, privileged=True)
        elif "/" in name:
            self._pods.prepare(self.namespace_elsewhere, prepared.ELSEWHERE)
        else:
            self._pods.prepare(self.namespace)

    def _deploy(self, name: str) -> Workload:
        wish = self._wish(name)
        return self._pods.deploy([wish])[wish.called]

    def _warm_up(self, work: Future[Workload]) -> None:
        if work.exception() is None and not work.result().role.endswith(
            "-server"
        ):  # a server needs none: its clients find out whether it has a network
            self._warm(work.result())

    def _wish(self, name: str) -> Wish:
        own = name.rpartition("/")[2]
        role = self._role(name)
        number = int(own.rpartition("-")[2])
        node = next(
            item
            for item in self._placement.usable(ROLES[role].os)
            if self._placement.number(item.name) == number
        )
        return Wish(
            role=role,
            node=node,
            name=own,
            namespace=self.namespace_elsewhere if "/" in name else "",
        )

    @staticmethod
    def _role(name: str) -> str:
        return name.rpartition("/")[2].rpartition("-")[0]  # windows-server-3 is a windows-server

    def _pods_of(self, name: str) -> list[Obj]:
        namespace = self.namespace_elsewhere if "/" in name else self.namespace
        return self._pods.kube.objects(
            "v1", "Pod", namespace, labels=f"{SEAT}={name.rpartition('/')[2]}"
        )
