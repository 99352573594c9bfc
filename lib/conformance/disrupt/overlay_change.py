# SPDX-License-Identifier: Apache-2.0
"""Changes of the overlay beside the delivery of a VNI: cross-subnet mode, another UDP port, a VNI
that Windows refuses, and one of which Windows takes 16 bits.

They share the story of :class:`VniChange`, which puts everything back once.  What is decided of a
claim here leaves the story's own claim as it is: failures are kept, and raised at the end.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.disrupt.awaiting import until_nothing_is_missing
from conformance.disrupt.vni import BEYOND, DEVICE, FELIX, V3
from conformance.disrupt.vni_change import VniChange
from conformance.errors import EnvironmentBroken, MissingCapability, Nonconformance, SuiteError
from conformance.expect.case import Paths
from conformance.expect.check import Check, Judged, Ruling
from conformance.model.change import ObjectRef
from conformance.model.endpoint import Pair, Workload
from conformance.model.facts import NodeFacts
from conformance.model.host import LinuxFacts, RouteEntry
from conformance.pods.pause_pods import PausePods
from conformance.verdicts.meaning import of_error, of_limitation

CROSS_SUBNET = "VXLAN-12"
PORT = "VXLAN-11"
SMALL = "XVX-3"
LARGE = "XVX-4"
OTHER_PORT = 4790
TOO_SMALL = 4095
VNI = re.compile(r"VNI")
"""The number of the overlay, in the network plugin's refusal of a pod."""


@dataclass(frozen=True)
class _Change:
    """A change that an expectation makes between its control and its attempts."""

    apply: Callable[[], object]


@dataclass(eq=False)
class OverlayChange:
    """The steps of a test that changes the overlay; :meth:`end` raises the worst failure."""

    story: VniChange
    pause: PausePods
    on_lab: bool
    """Only labs are given what cuts nodes off for nothing else than a test."""
    _errors: list[Exception] = field(default_factory=list)

    def cross_subnet(self, *, because: str) -> None:
        """Decide whether Linux and Windows nodes of one subnet lose each other while the pools
        have cross-subnet mode."""
        if self._refused(CROSS_SUBNET):
            return
        self.story.begin()
        pools = [
            pool["metadata"]["name"]
            for pool in self.story.vni.kube.objects(V3, "IPPool")
            if pool["spec"].get("vxlanMode") == "Always"
        ]
        hosts = self._linux()
        near = [pair for pair in self.story.now.between if _are_near(pair, hosts)]
        far = [pair for pair in self.story.now.between if pair not in near]
        if not near:
            self._not_run(CROSS_SUBNET, "no Linux and Windows node share a subnet", "add one")
            return

        def switch(mode: str) -> None:
            for pool in pools:
                ref = ObjectRef(api_version=V3, kind="IPPool", name=pool)
                self.story.journal.patch(
                    ref, {"spec": {"vxlanMode": mode}}, f"has its nodes use VXLAN: {mode}"
                )
            self._until(
                lambda: _astray(near, self._linux(), by_tunnel=mode == "Always"),
                f"Linux nodes follow vxlanMode {mode}",
            )

        self._limited(CROSS_SUBNET, lambda: switch("CrossSubnet"), near, far, because)
        switch("Always")

    def another_port(self, *, because: str) -> None:
        """Decide whether Linux and Windows nodes lose each other once another UDP port is
        configured."""
        if self._refused(PORT):
            return
        self.story.begin()
        felix = self.story.vni.kube.get(FELIX.api_version, FELIX.kind, FELIX.name)
        before = felix["spec"].get("vxlanPort")

        def change() -> None:
            self._configure(OTHER_PORT)
            self._until(
                lambda: [
                    f"{DEVICE} of node {node} has another port"
                    for node in self.story.now.linux_nodes
                    if self.story.vni.port(node) != OTHER_PORT
                ],
                f"Linux nodes use UDP port {OTHER_PORT}",
            )

        self._limited(PORT, change, self.story.now.between, (), because)
        self._configure(before)  # what is delivered next has Felix read both

    def small_vni(self, *, because: str) -> None:
        """Decide whether Windows nodes refuse a new pod once their VNI is below 4096."""
        if self._refused(SMALL):
            return
        self.story.give(TOO_SMALL)
        nodes = self._nodes()
        names = [self.pause.start(node, 1)[0] for node in nodes]
        for node, name in zip(nodes, names, strict=True):
            self._decide(SMALL, node, self._of_small(node, name, because))
        self.pause.remove()

    def large_vni(self, *, because: str) -> None:
        """Decide whether Windows nodes send with the lower 16 bits of a larger VNI, and Linux and
        Windows nodes lose each other."""
        before = self.story.begin()
        vni = before + BEYOND + 1

        def change() -> None:
            self.story.give(vni)
            self._until(
                lambda: [
                    f"node {node} sends with VNI {before}"
                    for node in self.story.windows
                    if before in self.story.vni.sent(node)
                ],
                f"Windows nodes send with a number of VNI {vni}",
            )

        self._limited(LARGE, change, self.story.now.between, (), because)
        for node in self._nodes():
            if (found := self._of_large(node, vni)) is not None:
                self._decide(LARGE, node, found)

    def end(self) -> None:
        """Raise the worst failure, if any."""
        Check(self.story.expect.context, "behaviour", self._errors).end()

    def _of_small(self, node: NodeFacts, name: str, because: str) -> Judged:
        """Return what a pod shows that came to a node with a VNI below 4096."""
        late, seconds = self.pause.wait(
            node, [name], enough=lambda late: not late or self.pause.refusal(late[0])
        )
        head = f"a new pod of node {node.name} with VNI {TOO_SMALL}"
        if not late:
            return Ruling(f"{head} has started, although {because}", of_limitation(gone=True))
        words = self.pause.refusal(late[0])
        if not words:
            return EnvironmentBroken(f"{SMALL}  {head} has not started after {seconds:.0f} s")
        if VNI.search(words):
            return f"{head}: {words}"
        return Nonconformance(
            f"{SMALL}  {head}  expected to be refused for its VNI, observed {words}\n"
            f"  because  {because}\n  do       read the log of Calico's CNI plugin on that node"
        )

    def _of_large(self, node: NodeFacts, vni: int) -> Judged | None:
        """Return what a Windows node's routes show beside the paths; None: nothing more."""
        sent = self.story.vni.sent(node.name)
        whole = sent == {vni}
        if sent == {vni % BEYOND} or (whole and self.story.vni.vsid(node.name) == vni):
            return None
        numbers = ", ".join(map(str, sorted(sent))) or "no number"
        head = f"{LARGE}  routes of HNS to other nodes on node {node.name}"
        if whole:
            return EnvironmentBroken(
                f"{head} have the whole VNI {vni}, while its network keeps another (VXLAN-9): "
                "what is lost shows nothing"
            )
        return Nonconformance(
            f"{head}  expected IsolationId {vni % BEYOND}, or {vni}, observed {numbers}\n"
            f"  do       compare IsolationId of Get-HnsNetwork with VXLAN_VNI on {node.name}"
        )

    def _limited(
        self,
        claim: str,
        change: Callable[[], object],
        lost: Sequence[Pair],
        more: Sequence[Pair],
        because: str,
    ) -> None:
        """Decide of a claim that paths are lost by the change, beside paths that are kept."""
        kept = [*self.story.now.among, *more]
        held = "inside a node and from Linux to Linux nothing changes"
        try:
            self.story.expect.of_claim(claim).limitation(
                _Change(change),
                Paths(lost, open=False, because=because),
                Paths(kept, open=True, because=held, witness=True),
            )
        except (Nonconformance, SuiteError) as error:
            self._errors.append(error)

    def _refused(self, claim: str) -> bool:
        """Return whether a claim is not tried here; then it is recorded as NOT_RUN."""
        if not self.on_lab:
            self._not_run(claim, "it cuts all nodes off, which happens on labs alone", "run a lab")
        return not self.on_lab

    def _not_run(self, claim: str, why: str, remedy: str) -> None:
        refusal = MissingCapability(why, remedy)
        for node in self._nodes():
            self._decide(claim, node, Ruling(str(refusal), of_error(refusal)))

    def _decide(self, claim: str, node: NodeFacts, found: Judged) -> None:
        context = self.story.expect.of_claim(claim).context
        Check(context, "behaviour", self._errors).decide(None, node, found)

    def _nodes(self) -> list[NodeFacts]:
        facts = self.story.vni.facts
        return [node for node in facts.by_os("windows") if node.name in self.story.windows]

    def _configure(self, port: int | None) -> None:
        self.story.journal.patch(
            FELIX, {"spec": {"vxlanPort": port}}, f"gives every node UDP port {port or 'of old'}"
        )

    def _until(self, missing: Callable[[], Sequence[str]], what: str) -> None:
        vni = self.story.vni
        until_nothing_is_missing(
            missing,
            within=vni.patience.vni_delivery,
            every=vni.patience.poll_every,
            clock=vni.clock,
            description=what,
            late=f"{what}: this did not come about",
        )

    def _linux(self) -> dict[str, LinuxFacts]:
        """Return the networking of the Linux nodes now."""
        hosts = self.story.vni.hosts
        return {node: hosts.linux(node) for node in self.story.now.linux_nodes}


def _ends(pair: Pair) -> tuple[str, Workload]:
    """Return the Linux node of a path between a Linux and a Windows pod, and the Windows pod."""
    source, target = pair
    (server,) = target.backends
    return (source.node, server) if source.os == "linux" else (server.node, source)


def _are_near(pair: Pair, hosts: Mapping[str, LinuxFacts]) -> bool:
    """Return whether the nodes of a path are in one subnet, by the Linux node's routes."""
    node, windows = _ends(pair)
    ways = [route for route in hosts[node].routes if _leads(route, windows.node_address)]
    return not ways or any(not route.gateway for route in ways)


def _astray(
    pairs: Iterable[Pair], hosts: Mapping[str, LinuxFacts], *, by_tunnel: bool
) -> list[str]:
    """Return the Linux nodes with another route to a path's Windows pod, by the tunnel or past
    it."""
    wrong = []
    for node, windows in map(_ends, pairs):
        ways = {route.device for route in hosts[node].routes if _leads(route, windows.address)}
        if (DEVICE in ways) != by_tunnel:
            wrong.append(f"node {node} reaches {windows.node} by {', '.join(sorted(ways))}")
    return wrong


def _leads(route: RouteEntry, address: str) -> bool:
    """Return whether a route leads to an address, be there a closer one or not."""
    return ipaddress.ip_address(address) in ipaddress.ip_network(route.destination)
