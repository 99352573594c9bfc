# SPDX-License-Identifier: Apache-2.0
"""A change of the VNI under running pods. It shows which paths are open before, which paths the
change cuts off, and which paths the documented procedure restores. If two nodes have different
VNIs, the receiver drops their packets. Inside a node, and between nodes with the same VNI, nothing
changes. At the end all changes are restored, and traffic verifies this."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from conformance.disrupt.demo_pods import DemoPods
from conformance.disrupt.procedure import HNS_NETWORK, NetworkStays, Procedure
from conformance.disrupt.vni import BEYOND, Delivery, Vni
from conformance.errors import (
    ControlBroken,
    EnvironmentBroken,
    MissingCapability,
    Nonconformance,
    first_line,
)
from conformance.expect.case import Paths
from conformance.expect.explain import message
from conformance.expect.traffic import Expect
from conformance.journal import NOT_RESTORED, Journalled
from conformance.model.endpoint import Pair
from conformance.verdicts.meaning import of_promise

__tracebackhide__ = True  # a failure shows the line of the test instead of this module's


@dataclass
class VniChange:
    """The steps of a test that changes the VNI."""

    vni: Vni
    procedure: Procedure
    journal: Journalled
    expect: Expect
    demo_pods: Callable[[], DemoPods]
    new_pods: Callable[[], object]
    """Creates a new pod with a network on every Windows node."""
    windows: Sequence[str]
    """Windows nodes that take pods."""
    lifted: Callable[[str], None]
    """Reports that Windows used the new VNI. The function is called after traffic has shown this.
    """
    fit: Callable[[], object] = lambda: None
    """Raises MissingCapability if the cluster may not be changed now."""
    services: Callable[[DemoPods], Sequence[Pair]] = lambda demo_pods: ()
    """Returns the paths from Windows pods to Services, by address and by name."""
    revive: Callable[[str], object] = lambda node: None
    """Restarts kube-proxy on a Windows node."""
    step: int = 1
    """The difference between the VNI that :meth:`deliver` gives and the VNI before it."""
    now: DemoPods = field(init=False)
    """The pods as they were last found; set by :meth:`prepare`."""
    delivery: Delivery = field(init=False)
    """The last delivery; set by :meth:`deliver`."""
    changed: int | None = None
    """The VNI before the change. None once nothing has to be restored."""

    def prepare(self, *, because: str) -> None:
        """Check that the change can be made and restored, that Windows uses the configured VNI, and
        that all paths are open.

        Raise MissingCapability, EnvironmentBroken, ControlBroken; nothing was changed then.
        """
        self.fit()
        self.vni.possible()
        for node in self.windows:
            self.procedure.possible(node)
            self.procedure.refuse_budgets(node)
        self.now = self.demo_pods()
        configured = self.vni.configured()
        found = self._vsids()
        if set(found.values()) != {configured}:
            raise EnvironmentBroken(
                f"before any change the configured VNI is {configured}, but Windows nodes use "
                f"{_describe(found)}"
            )
        self.expect.control([*self._paths, *self.services(self.now)], because=because)

    def deliver(self, *, because: str) -> None:
        """Give every node another VNI; then create a new pod with a network on every Windows node.
        Raise MissingCapability, before any change, if a node could not get a new network later."""
        vni = self.begin() + self.step
        self.give(vni)
        self.delivery = replace(self.delivery, before=vni - self.step)
        self.new_pods()
        self.expect.context.sink.record("seconds to deliver a VNI", round(self.delivery.seconds, 3))
        self.expect.context.sink.attach(
            "delivery", f"VNI {self.delivery.before} -> {vni}: {because}"
        )

    def begin(self) -> int:
        """Before any change, record in the journal how every Windows node gets its network back.
        Return the present VNI. Raise as :meth:`deliver` does."""
        if self.changed is None:
            for node in self.windows:
                self.procedure.possible(node)
            for node in self.windows:
                HNS_NETWORK.note(self.journal, node)
            self.changed = self.vni.configured()
        return self.changed

    def give(self, vni: int) -> None:
        """Give every node a VNI, unless this VNI was given last."""
        self.begin()
        if self.vni.configured() != vni:
            self.delivery = self.vni.deliver(vni, linux=self.now.linux_nodes, windows=self.windows)

    def stays_behind(self, *, because: str) -> None:
        """Expect each Windows node to keep its VSID and to lose its paths to Linux nodes, while all
        other paths stay open.

        If every Windows node took the new VNI and traffic passes, the limitation no longer exists,
        and the report says so.
        """
        delivery = self.delivery
        found = self._vsids()
        if set(found.values()) == {delivery.vni}:
            if delivery.vni >= BEYOND:
                raise EnvironmentBroken(
                    f"every Windows node took VNI {delivery.vni}, but traffic cannot confirm that, "
                    "since "
                    "Windows may send with its lower 16 bits (XVX-4)"
                )
            taken = (
                f"Windows took VNI {delivery.vni} by itself, so that all nodes have the same VNI "
                "again"
            )
            self.expect.matrix(Paths(self._paths, open=True, because=taken))
            self.lifted(
                f"VNI {delivery.vni} was taken by every Windows node without the procedure, and traffic passes"
            )
            return
        self._demand(found, delivery.before, because)
        self.expect.matrix(
            Paths(self.now.among, open=True, because=because),
            Paths(self.now.between, open=False, because=because),
        )
        self._across()

    def follow_the_procedure(self, *, because: str) -> None:
        """Carry out the documented procedure on every Windows node, one after the other.

        Raise EnvironmentBroken for the first node that could not be emptied. This node and the
        nodes after it keep their networks.
        """
        for node in self.windows:
            try:
                self.procedure.new_network(node)
            except (MissingCapability, NetworkStays) as refused:
                delivery = self.delivery
                raise EnvironmentBroken(
                    f"{first_line(refused)}; the HNS network of node {node} keeps VSID "
                    f"{delivery.before}, although the VNI is "
                    f"{delivery.vni}; to restore what the test leaves:  pytest --restore"
                ) from refused
        self.now = self.demo_pods()
        self.expect.context.sink.attach(
            "procedure", f"carried out on {', '.join(self.windows)}: {because}"
        )

    def heals(self, *, because: str) -> None:
        """Expect the Windows nodes to have a network with the new VNI, and all paths, Services and
        DNS to be open."""
        self._demand(self._vsids(), self.delivery.vni, because)
        self.expect.matrix(Paths(self._paths, open=True, because=because))
        self._serve(because)

    def put_back(self) -> None:
        """Restore everything that was changed, and check that all paths are as before. Raise
        EnvironmentBroken (with the changes that could not be restored), ControlBroken (a path that
        was open is not open now)."""
        if self.changed is None:
            return
        before = self.changed
        self.changed = None
        wrong = [
            str(restored) for restored in self.journal.restore() if restored.outcome in NOT_RESTORED
        ]
        if wrong:
            raise EnvironmentBroken(f"after the test: {'; '.join(wrong)}")
        self.vni.delivered(before, linux=self.now.linux_nodes, windows=self.windows)
        self.now = self.demo_pods()
        because = f"VNI {before} is back on every node, as before the test"
        self.expect.control(self._paths, because=because)
        self._serve(because)

    @property
    def _paths(self) -> list[Pair]:
        return [*self.now.between, *self.now.among, *self.now.across]

    def _serve(self, because: str) -> None:
        """Check that Services and names work from Windows pods. If they do not, restart kube-proxy
        on the pods' nodes and check again.

        Raise ControlBroken, EnvironmentBroken. A failure is no Nonconformance, since no document
        says that Services and names survive the procedure.
        """
        pairs = self.services(self.now)
        if not pairs:
            return
        try:
            self.expect.control(pairs, because=because)
        except ControlBroken as dead:
            nodes = sorted({source.node for source, _ in pairs})
            revived = [
                node
                for node in nodes
                if not self._alive([pair for pair in pairs if pair[0].node == node])
            ]
            for node in revived:
                self.revive(node)
            if revived:
                self.expect.context.sink.record(
                    "kube-proxy restarted, since Services stayed dead", ", ".join(revived)
                )
                self.expect.context.sink.record("kube-proxies started anew", float(len(revived)))
            self.expect.context.sink.attach("Services that stayed dead", str(dead))
            self.expect.control(self.services(self.now), because=because)

    def _alive(self, pairs: Sequence[Pair]) -> bool:
        """Return whether all of these paths to Services work. The paths must begin on the same
        node."""
        try:
            self.expect.control(pairs, because="this shows on which nodes Services do not work")
        except ControlBroken:
            return False
        return True

    def _vsids(self) -> dict[str, int | None]:
        return {node: self.vni.vsid(node) for node in self.windows}

    def _demand(self, found: Mapping[str, int | None], wanted: int, because: str) -> None:
        """Expect every Windows node to have this VSID. Each node is decided separately. Raise
        Nonconformance."""
        delivery = self.delivery
        claims = ", ".join(self.expect.context.claims) or "no claim"
        heads = {
            node: f"{claims}  HNS network of pods of node {node}  expected VSID {wanted}, observed "
            f"{vsid or 'no network'} (VNI {delivery.before} -> {delivery.vni}, {delivery.seconds:.1f} s)"
            for node, vsid in found.items()
            if vsid != wanted
        }
        if not heads:
            return
        for pod in {server.node: server for server in self.now.windows_servers}.values():
            self.expect.context.decided(
                None,
                pod,
                of_promise(pod.node not in heads),
                heads.get(pod.node, because),
                "read",
            )
        node, head = next(iter(heads.items()))
        raise Nonconformance(
            f"{head}\n"
            f"  because  {because}\n"
            f"  read     Get-HnsNetwork: {_describe(found)}\n"
            f"  do       compare VXLAN_VNI of calico-node-windows and vxlan_vni of the CNI configuration on {node}"
        )

    def _across(self) -> None:
        """Record, without deciding anything, whether Windows pods on different nodes reach each
        other. No document says whether they do."""
        # These attempts identify the server, since a bare connection does not show which pod
        # answered.
        attempts = [self.expect.attempt(source, target) for source, target in self.now.across]
        for observation in self.expect.prober.observe(attempts):
            self.expect.context.sink.record(
                "windows to windows across nodes", message.summary([observation])
            )


def _describe(vsids: Mapping[str, int | None]) -> str:
    return ", ".join(f"{node}: {vsid or 'no network'}" for node, vsid in vsids.items())
