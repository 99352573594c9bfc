"""The pods that one worker's tests share, deployed when a test first asks for them, and kept until the worker ends.

Who is where: client and server of an OS on one node, its peer on a second node, so that each path has its pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from conformance.errors import SuiteTrouble
from conformance.model.endpoint import OS, Workload
from conformance.pods.deploy import Pods, Wish
from conformance.pods.placement import Placement
from conformance.pods.roles import ROLES

ELSEWHERE = "elsewhere"
"""Prefix of names of pods in the worker's second namespace: ``elsewhere/linux-client``."""
ELSEWHERE_LABELS = {"conformance/team": "elsewhere"}
"""Labels of that namespace, which policies select it by."""


class Cast:
    """Pods by name: a role (``windows-server``), or a role in the second namespace (``elsewhere/windows-client``)."""

    def __init__(self, pods: Pods, placement: Placement) -> None:
        self._pods, self._placement = pods, placement
        self._there: dict[str, Workload] = {}
        self._failed: dict[str, SuiteTrouble] = {}
        self.used: dict[str, Workload] = {}
        """What the running test has asked for; whoever starts a test empties it."""

    @property
    def namespace(self) -> str:
        """Namespace of the pods, but for those elsewhere and in a node's network."""
        return self._pods.namespace

    @property
    def namespace_elsewhere(self) -> str:
        """The worker's second namespace."""
        return f"{self._pods.namespace}-{ELSEWHERE}"

    def of(self, *names: str) -> tuple[Workload, ...]:
        """The pods of these names, those not there yet deployed at once.

        Raises what deploying raises; a pod that could not be deployed once is not tried again by every test.
        """
        for name in names:
            if name in self._failed:
                raise self._failed[name]
        self._deploy([name for name in dict.fromkeys(names) if name not in self._there])
        found = tuple(self._there[name] for name in names)
        self.used |= dict(zip(names, found, strict=True))
        return found

    def client(self, os: OS) -> Workload:
        """The demo's client of an OS."""
        return self.of(f"{os}-client")[0]

    def server(self, os: OS) -> Workload:
        """The demo's server of an OS."""
        return self.of(f"{os}-server")[0]

    def node(self) -> Workload:
        """A pod in the network of a Linux node: the node as a source."""
        return self.of("linux-node")[0]

    def pair(self, client: OS, server: OS, *, same_node: bool = False) -> tuple[Workload, Workload]:
        """A client and a server on one node, or on two.  Raises EnvironmentLacks where the cluster is too small."""
        if same_node and client != server:
            raise ValueError("a node has one operating system")
        other = "peer" if client == server and not same_node else "server"
        source, target = self.of(f"{client}-client", f"{server}-{other}")
        return source, target

    def name_of(self, workload: Workload) -> str:
        """The name it was deployed by, which is its ``app`` label."""
        return next(name for name, one in self._there.items() if one.uid == workload.uid).rpartition("/")[2]

    def on_each_node(self, os: OS) -> tuple[Workload, ...]:
        """One pod on every node of an OS that takes pods: server, peer, and further peers."""
        count = len(self._placement.usable(os))
        first = ["server", "peer", *(f"peer-{number}" for number in range(3, count + 1))][: max(1, count)]
        return self.of(*(f"{os}-{name}" for name in first))

    def _deploy(self, names: Sequence[str]) -> None:
        spaces: dict[str, list[str]] = {}
        for name in names:
            spaces.setdefault(name.rpartition("/")[0], []).append(name)
        if not spaces:
            return
        with ThreadPoolExecutor(max_workers=len(spaces)) as pool:
            work = [pool.submit(self._deploy_in, space, group) for space, group in spaces.items()]
        for one in work:
            one.result()

    def _deploy_in(self, space: str, names: Sequence[str]) -> None:
        """Deploy pods of one namespace: names are unique only there."""
        namespace = self.namespace_elsewhere if space else ""
        try:
            wishes = [self._wish(name, namespace) for name in names]
            if space:
                self._pods.prepare(namespace, ELSEWHERE_LABELS)
            found = self._pods.deploy(wishes)
        except SuiteTrouble as trouble:
            self._failed |= dict.fromkeys(names, trouble)
            raise
        for name, wish in zip(names, wishes, strict=True):
            self._there[name] = found[wish.called]

    def _wish(self, name: str, namespace: str) -> Wish:
        own = name.rpartition("/")[2]
        role = own if own in ROLES else own.rpartition("-")[0]  # windows-peer-3 is a windows-peer
        os = ROLES[role].os
        if own == role:
            node = self._placement.second(os) if role.endswith("-peer") else self._placement.first(os)
        else:
            node = self._placement.usable(os)[int(own.rpartition("-")[2]) - 1]
        return Wish(role=role, node=node, name=own, namespace=namespace)
