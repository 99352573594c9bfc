"""The pods that one worker's tests share, deployed when a test first asks for them, and kept until the worker ends.

Who is where: client and server of an OS on one node, its peer on a second node, so that each path has its pair.
Each pod is deployed in a thread of its own, so that tests wait for what they ask for and for nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Literal

from conformance.errors import EnvironmentBroken, EnvironmentLacks
from conformance.kube.client import Obj
from conformance.kube.waits import is_ready
from conformance.model.endpoint import OS, Workload
from conformance.pods.deploy import Pods, Wish, changed, there_now
from conformance.pods.placement import Placement
from conformance.pods.roles import ROLES
from conformance.pods.starting import verdict_on

ELSEWHERE = "elsewhere"
"""Prefix of names of pods in the worker's second namespace: ``elsewhere/linux-client``."""
ELSEWHERE_LABELS = {"conformance/team": "elsewhere"}
"""Labels of that namespace, which policies select it by."""
DEMO = ("linux-client", "linux-server", "windows-client", "windows-server")
"""Whoever asks for one of these will ask for the others: they are started together."""
OTHER: dict[OS, OS] = {"linux": "windows", "windows": "linux"}


Place = Literal["same node", "a Linux node", "another Windows node"]
"""Where a server is, seen from a client's Windows node."""


class Cast:
    """Pods by name: a role (``windows-server``), or a role in the second namespace (``elsewhere/windows-client``)."""

    def __init__(
        self, pods: Pods, placement: Placement, warm: Callable[[Workload], None] = lambda client: None
    ) -> None:
        """``warm`` waits until a new pod that will be a client has a network."""
        self._pods, self._placement, self._warm = pods, placement, warm
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(max_workers=32, thread_name_prefix="deploy")
        self._work: dict[str, Future[Workload]] = {}
        self._warmth: dict[str, Future[None]] = {}
        self._lost: dict[str, Workload] = {}
        """What pods were before something changed them."""
        self.used: dict[str, Workload] = {}
        """What the running test has asked for; whoever starts a test empties it."""
        self.claims: tuple[str, ...] = ()
        """Of the running test."""

    @property
    def namespace(self) -> str:
        """Namespace of the pods, but for those elsewhere and in a node's network."""
        return self._pods.namespace

    @property
    def namespace_elsewhere(self) -> str:
        """The worker's second namespace."""
        return f"{self._pods.namespace}-{ELSEWHERE}"

    # --- what tests say -------------------------------------------------------------------------------------------

    def of(self, *names: str) -> tuple[Workload, ...]:
        """The pods of these names, those not there yet deployed at once.

        Raises what deploying raised, to every test that asks: a pod that could not be deployed is not tried again.
        """
        found = self._deployed(names)
        for name in names:
            self._warmth[name].result()
        return found

    def client(self, os: OS) -> Workload:
        """The demo's client of an OS."""
        return self.of(f"{os}-client")[0]

    def clients(self, first: OS) -> tuple[Workload, ...]:
        """Both clients of the demo, that of ``first`` first."""
        return self.of(f"{first}-client", f"{OTHER[first]}-client")

    def clients_elsewhere(self) -> tuple[Workload, ...]:
        """Clients of both systems in the second namespace, with the labels of the demo's."""
        return self.of(f"{ELSEWHERE}/linux-client", f"{ELSEWHERE}/windows-client")

    def server(self, os: OS) -> Workload:
        """The demo's server of an OS."""
        return self.of(f"{os}-server")[0]

    def servers(self, first: OS) -> tuple[Workload, ...]:
        """Both servers of the demo, that of ``first`` first."""
        return self.of(f"{first}-server", f"{OTHER[first]}-server")

    def node(self) -> Workload:
        """A pod in the network of a Linux node: the node as a source."""
        return self.of("linux-node")[0]

    def pair(self, client: OS, server: OS, *, same_node: bool = False) -> tuple[Workload, ...]:
        """A client and a server on one node, or on two.  Raises EnvironmentLacks where the cluster is too small."""
        if same_node and client != server:
            raise ValueError("a node has one operating system")
        other = "peer" if client == server and not same_node else "server"
        return self.of(f"{client}-client", f"{server}-{other}")

    def on_each_node(self, os: OS) -> tuple[Workload, ...]:
        """One pod on every node of an OS that takes pods: server, peer, and further peers."""
        count = len(self._placement.usable(os))
        first = ["server", "peer", *(f"peer-{number}" for number in range(3, count + 1))][: max(1, count)]
        return self.of(*(f"{os}-{name}" for name in first))

    def around(self, node: str, place: Place) -> tuple[Workload, Workload, Workload]:
        """A client on that Windows node, a stranger on Linux, a server there or elsewhere.  Raises EnvironmentLacks.

        They are the demo's clients where the node is the worker's first, and servers only answer: agents are few.
        """
        nodes = [one.name for one in self._placement.usable("windows")]
        there = nodes.index(node)
        if place == "another Windows node":
            self._placement.second("windows")
        server = "linux-server"
        if place != "a Linux node":
            server = _numbered("windows-peer", there if place == "same node" else (there + 1) % len(nodes), plain=1)
        client, stranger, backend = self.of(_numbered("windows-client", there), "linux-client", server)
        return client, stranger, backend

    def start(self, *names: str, because: str) -> tuple[Workload, ...]:
        """The pods of these names, for a test about starting: one that does not become ready is a Nonconformance.

        An image that cannot be pulled, a container that crashes, or a cluster without room still is EnvironmentBroken.
        Nothing is asked of the pods themselves, so that only starting is judged.
        """
        try:
            return self._deployed(names)
        except EnvironmentBroken as trouble:
            there = [pod for name in names for pod in self._pods_of(name)]
            verdict = verdict_on(there, trouble, self.claims, because)
            if verdict is trouble:
                raise
            raise verdict from trouble

    def there(self, *names: str) -> tuple[Workload, ...]:
        """The pods of these names, for a test that reads about them: ready, whatever their network does.

        Raises what deploying raised; a pod that does not start says nothing about what was to be read.
        """
        return self._deployed(names)

    def name_of(self, workload: Workload) -> str:
        """The name it was deployed by, which is its ``app`` label."""
        there = {name: work.result() for name, work in self._work.items() if work.done() and not work.exception()}
        return next(name for name, one in there.items() if one.uid == workload.uid).rpartition("/")[2]

    def at(self, node: str, *roles: str) -> tuple[Workload, ...]:
        """Pods of these roles on a node, for a test that has it to itself: ``pods.at(own_node, "windows-server")``.

        Raises EnvironmentLacks when the node takes no pods.
        """
        return self.of(*(self._named(role, node) for role in roles))

    def revalidate(self) -> None:
        """Look at the pods again, since an exclusive test may have changed them: whoever asks for one gets the new one.

        Returns as soon as it is known which ones changed; that one has no successor in time is told (EnvironmentBroken)
        to the tests that ask for it, and it is looked for again after the next exclusive test.
        """
        self._look_again(patient=True)

    def refresh(self) -> None:
        """As :meth:`revalidate`, before each test: a pod that restarted meanwhile spoils no test after it.

        Costs one request per namespace.  For a pod without successor nobody waits again until there is a ready one.
        """
        self._look_again(patient=False)

    def under_way(self) -> list[Future[Any]]:
        """What is still being deployed or warmed up."""
        with self._lock:
            work: list[Future[Any]] = [*self._work.values(), *self._warmth.values()]
        return [one for one in work if not one.done()]

    def close(self) -> None:
        """Wait for what is still being deployed, and start nothing more."""
        self._threads.shutdown(wait=True)

    # --- how ------------------------------------------------------------------------------------------------------

    def _look_again(self, *, patient: bool) -> None:
        with self._lock:
            done = {name: one for name, one in self._work.items() if one.done()}
            there = {name: one.result() for name, one in done.items() if not one.exception()}
            lost = {name: one for name, one in self._lost.items() if name in done and name not in there}
            now = there_now(self._pods.kube, [*there.values(), *lost.values()])
            for name, one in (there | lost).items():
                why = changed(one, now.get((one.namespace, one.pod)))
                if name in lost:
                    why = why or f"pod {one.label} was not ready"
                    here = [pod for (namespace, _), pod in now.items() if namespace == one.namespace]
                    if not patient and not any(is_ready(pod) and _app(pod) == self._wish(name).called for pod in here):
                        continue
                if why:
                    self._lost[name] = one
                    self._work[name] = self._threads.submit(self._pods.again, self._wish(name), why)
                    self._warmth[name] = self._threads.submit(self._warm_up, self._work[name])

    def _deployed(self, names: Sequence[str]) -> tuple[Workload, ...]:
        work = [self._start(name) for name in names]
        if set(names) & set(DEMO):
            for name in DEMO:
                self._start(name)
        wait(work)
        found = tuple(one.result() for one in work)
        self.used |= dict(zip(names, found, strict=True))
        return found

    def _start(self, name: str) -> Future[Workload]:
        with self._lock:
            if name not in self._work:
                self._prepare(name)
                self._work[name] = self._threads.submit(self._deploy, name)
                self._warmth[name] = self._threads.submit(self._warm_up, self._work[name])
            return self._work[name]

    def _prepare(self, name: str) -> None:
        """Make its namespace, before threads do at once."""
        role = ROLES[self._role(name)]
        if role.host_network:
            self._pods.prepare(self._pods.host_namespace, privileged=True)
        elif "/" in name:
            self._pods.prepare(self.namespace_elsewhere, ELSEWHERE_LABELS)
        else:
            self._pods.prepare(self.namespace)

    def _deploy(self, name: str) -> Workload:
        wish = self._wish(name)
        return self._pods.deploy([wish])[wish.called]

    def _warm_up(self, work: Future[Workload]) -> None:
        if work.exception() is None and not work.result().role.endswith("-server"):  # servers show it to their clients
            self._warm(work.result())

    def _named(self, role: str, node: str) -> str:
        """The name of that pod: the worker's own where it stands on that node anyway."""
        usable = [one.name for one in self._placement.usable(ROLES[role].os)]
        if node not in usable:
            raise EnvironmentLacks(
                f"a {role} is wanted on node {node}, which takes no such pods ({', '.join(usable) or 'none does'})",
                "uncordon it, or name another by --disruptive-node",
            )
        number = usable.index(node) + 1
        return role if number == (2 if role.endswith("-peer") else 1) else f"{role}-{number}"

    def _wish(self, name: str) -> Wish:
        own, role = name.rpartition("/")[2], self._role(name)
        os = ROLES[role].os
        if own != role:
            node = self._placement.usable(os)[int(own.rpartition("-")[2]) - 1]
        else:
            node = self._placement.second(os) if role.endswith("-peer") else self._placement.first(os)
        return Wish(role=role, node=node, name=own, namespace=self.namespace_elsewhere if "/" in name else "")

    @staticmethod
    def _role(name: str) -> str:
        own = name.rpartition("/")[2]
        return own if own in ROLES else own.rpartition("-")[0]  # windows-peer-3 is a windows-peer

    def _pods_of(self, name: str) -> list[Obj]:
        namespace = self.namespace_elsewhere if "/" in name else self.namespace
        return self._pods.kube.objects("v1", "Pod", namespace, labels=f"app={name.rpartition('/')[2]}")


def _numbered(role: str, index: int, *, plain: int = 0) -> str:
    """A role's name on the usable node of that index; on one of them its plain name is what all tests share."""
    return role if index == plain else f"{role}-{index + 1}"


def _app(pod: Obj) -> str:
    return str((pod["metadata"].get("labels") or {}).get("app") or "")
