# SPDX-License-Identifier: Apache-2.0
"""Changes of the overlay in addition to the delivery of a VNI: cross-subnet mode, another UDP port,
a VNI that Windows refuses, and a VNI of which Windows uses only 16 bits.

These changes are steps within a :class:`VniChange`, which restores all of them at its end. The
decisions about the claims here do not affect the claim of the VniChange: failures are kept, and
raised at the end.
"""

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.disrupt.awaiting import until_nothing_is_missing
from conformance.disrupt.vni import BEYOND, DEVICE, FELIX, V3
from conformance.disrupt.vni_change import VniChange
from conformance.errors import EnvironmentBroken, MissingCapability, Nonconformance
from conformance.expect.case import Paths
from conformance.expect.check import Check, Judged, Ruling
from conformance.facts.felix_settings import DEFAULTS
from conformance.model.change import ObjectRef
from conformance.model.endpoint import Pair, Workload
from conformance.model.facts import NodeFacts
from conformance.model.host import LinuxFacts, RouteEntry
from conformance.pods.pause_pods import PausePods
from conformance.verdicts.meaning import of_error, of_limitation

OTHER_PORT = 4790
TOO_SMALL = 4095


@dataclass(frozen=True)
class _Change:
    """A change that an expectation makes after its control attempts, and before the attempts that
    judge the change."""

    apply: Callable[[], None]


@dataclass(eq=False)
class OverlayChange:
    """The steps of a test that changes the overlay; :meth:`end` raises the worst failure."""

    story: VniChange
    pause: PausePods
    on_lab: bool
    """The cluster is a lab. Changes that only serve to cut nodes off are made only on labs."""
    _errors: list[Exception] = field(default_factory=list)

    def cross_subnet(self, *, because: str) -> None:
        """Decide whether Linux and Windows nodes in the same subnet lose their connection while the
        pools have cross-subnet mode."""
        hosts = self._linux()
        near = [pair for pair in self.story.now.between if _are_near(pair, hosts)]
        if self._refused("VXLAN-12", are_there=bool(near)):
            return

        def switch(mode: str) -> None:
            for pool in self.story.vni.kube.objects(V3, "IPPool"):
                if pool["spec"].get("vxlanMode", "Never") != "Never":
                    self.story.journal.patch(
                        ObjectRef(api_version=V3, kind="IPPool", name=pool["metadata"]["name"]),
                        {"spec": {"vxlanMode": mode}},
                        f"sets vxlanMode {mode}",
                    )
            self._until(
                lambda: _astray(near, self._linux(), by_tunnel=mode == "Always"),
                f"Linux nodes follow vxlanMode {mode}",
            )

        far = [pair for pair in self.story.now.between if pair not in near]
        self._limited("VXLAN-12", lambda: switch("CrossSubnet"), near, far, because)
        switch("Always")

    def another_port(self, *, because: str) -> None:
        """Decide whether Linux and Windows nodes lose their connection once another UDP port is
        configured."""
        if self._refused("VXLAN-11"):
            return
        felix = self.story.vni.kube.get(FELIX.api_version, FELIX.kind, FELIX.name)

        def change() -> None:
            self._configure(OTHER_PORT)
            self._until(
                lambda: [
                    f"{DEVICE} of node {node} has another port"
                    for node, host in self._linux().items()
                    if (link := host.link(DEVICE)) is None
                    or link.vxlan is None
                    or link.vxlan.port != OTHER_PORT
                ],
                f"Linux nodes use UDP port {OTHER_PORT}",
            )

        self._limited("VXLAN-11", change, self.story.now.between, (), because)
        # Felix reads this port together with the VNI that is delivered next.
        self._configure(int(felix["spec"].get("vxlanPort", DEFAULTS["vxlanPort"])))

    def small_vni(self, *, because: str) -> None:
        """Decide whether Windows nodes refuse a new pod once their VNI is below 4096."""
        if self._refused("XVX-3"):
            return
        self.story.give(TOO_SMALL)
        for node in self._nodes():
            self._decide("XVX-3", node, self._of_small(node, self.pause.start(node, 1)[0], because))
        self.pause.remove()

    def large_vni(self, *, because: str) -> None:
        """Decide whether Windows nodes send only the lower 16 bits of a VNI above 65535. If they
        do, Linux and Windows nodes no longer reach each other."""
        before = self.story.begin()
        vni = before + BEYOND + 1
        read: list[tuple[NodeFacts, Judged]] = []

        def change() -> None:
            self.story.give(vni)
            self._until(
                lambda: [
                    f"node {node} sends with VNI {before}"
                    for node in self.story.windows
                    if before in self.story.vni.sent(node)
                ],
                f"Windows nodes send with VNI {vni} or its lower bits",
            )
            read.extend(
                (node, found)
                for node in self._nodes()
                if (found := self._of_large(node, vni)) is not None
            )

        self._limited("XVX-4", change, self.story.now.between, (), because)
        for node, judged in read:
            self._decide("XVX-4", node, judged)

    def end(self) -> None:
        """Raise the worst failure, if there is any."""
        Check(self.story.expect.context, "behaviour", self._errors).end()

    def _of_small(self, node: NodeFacts, name: str, because: str) -> Judged:
        """Return the judgement about a pod that was created on a node with a VNI below 4096:
        whether the CNI plugin refused the pod for its VNI."""
        late, seconds = self.pause.wait(
            node, [name], enough=lambda late: not late or self.pause.refusal(late[0])
        )
        head = f"a new pod of node {node.name} with VNI {TOO_SMALL}"
        if not late:
            return Ruling(f"{head} has started, although {because}", of_limitation(gone=True))
        words = self.pause.refusal(late[0])
        if not words:
            return EnvironmentBroken(f"XVX-3  {head} has not started after {seconds:.0f} s")
        if "VNI" in words:
            return f"{head}: {words}"
        return Nonconformance(
            f"XVX-3  {head}  expected to be refused for its VNI, observed {words}\n"
            f"  because  {because}\n  do       read the log of Calico's CNI plugin on that node"
        )

    def _of_large(self, node: NodeFacts, vni: int) -> Judged | None:
        """Return the failure that a Windows node's routes show, in addition to the failures of
        paths. Return None if the routes show no failure."""
        sent = self.story.vni.sent(node.name)
        whole = sent == {vni}
        if sent == {vni % BEYOND} or (whole and self.story.vni.vsid(node.name) == vni):
            return None
        head = f"XVX-4  routes of HNS to other nodes on node {node.name}"
        if whole:
            return EnvironmentBroken(
                f"{head} have the whole VNI {vni}, while the node's network has another (VXLAN-9): "
                "lost paths show nothing"
            )
        return Nonconformance(
            f"{head}  expected IsolationId {vni % BEYOND}, or {vni}, observed {sorted(sent)}\n"
            f"  do       compare IsolationId of Get-HnsNetwork with VXLAN_VNI on {node.name}"
        )

    def _limited(
        self,
        claim: str,
        change: Callable[[], None],
        lost: Sequence[Pair],
        more: Sequence[Pair],
        because: str,
    ) -> None:
        """Decide the claim that the change cuts off some paths, while other paths stay open."""
        self.story.begin()
        expect = self.story.expect.of_claim(claim)
        witness = Paths(
            [*self.story.now.among, *more],
            open=True,
            because="inside a node and from Linux to Linux nothing changes",
            witness=True,
        )
        Check(expect.context, "behaviour", self._errors).keep(
            lambda: expect.limitation(
                _Change(change), Paths(lost, open=False, because=because), witness
            )
        )

    def _refused(self, claim: str, *, are_there: bool = True) -> bool:
        """Return whether a claim cannot be tested here; if so, record it as NOT_RUN.

        ``are_there``: the cluster has nodes of the kind that the claim is about.
        """
        if self.on_lab and are_there:
            return False
        refusal = MissingCapability(
            "the test cuts off nodes, so it runs only on labs that have such nodes", "run a lab"
        )
        for node in self._nodes():
            self._decide(claim, node, Ruling(str(refusal), of_error(refusal)))
        return True

    def _decide(self, claim: str, node: NodeFacts, found: Judged) -> None:
        Check(self.story.expect.of_claim(claim).context, "behaviour", self._errors).decide(
            None, node, found
        )

    def _nodes(self) -> list[NodeFacts]:
        return [
            node
            for node in self.story.vni.facts.by_os("windows")
            if node.name in self.story.windows
        ]

    def _configure(self, port: int) -> None:
        self.story.journal.patch(
            FELIX, {"spec": {"vxlanPort": port}}, f"gives every node UDP port {port}"
        )

    def _until(self, missing: Callable[[], Sequence[str]], what: str) -> None:
        vni = self.story.vni
        until_nothing_is_missing(
            missing,
            within=vni.patience.vni_delivery,
            every=vni.patience.poll_every,
            clock=vni.clock,
            description=what,
            late=f"not observed: {what}",
        )

    def _linux(self) -> dict[str, LinuxFacts]:
        """Return the present network state of the Linux nodes."""
        hosts = self.story.vni.hosts
        return {node: hosts.linux(node) for node in self.story.now.linux_nodes}


def _ends(pair: Pair) -> tuple[str, Workload]:
    """Return both ends of a path between a Linux pod and a Windows pod: the Linux node, and the
    Windows pod."""
    (server,) = pair[1].backends
    return (pair[0].node, server) if pair[0].os == "linux" else (server.node, pair[0])


def _are_near(pair: Pair, hosts: Mapping[str, LinuxFacts]) -> bool:
    """Return whether the nodes of a path are in the same subnet, according to the Linux node's
    routes."""
    node, windows = _ends(pair)
    ways = [route for route in hosts[node].routes if _leads(route, windows.node_address)]
    return not ways or any(not route.gateway for route in ways)


def _astray(
    pairs: Iterable[Pair], hosts: Mapping[str, LinuxFacts], *, by_tunnel: bool
) -> list[str]:
    """Return the Linux nodes whose route to the path's Windows pod is not as expected.

    ``by_tunnel``: whether the route is expected to use the tunnel's device.
    """
    return [
        f"node {node} has another kind of route to {windows.node}"
        for node, windows in map(_ends, pairs)
        if any(
            route.device == DEVICE and _leads(route, windows.address)
            for route in hosts[node].routes
        )
        != by_tunnel
    ]


def _leads(route: RouteEntry, address: str) -> bool:
    """Return whether a route covers an address, even if a more specific route covers it, too."""
    return ipaddress.ip_address(address) in ipaddress.ip_network(route.destination)
