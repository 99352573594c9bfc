"""The documented way to give a Windows node new VXLAN parameters (VXLAN-10).

Drain the node, remove the HNS network of its pods (that which KUBE_NETWORK names), restart Calico there, have
DaemonSets' pods made anew, which no drain evicts and which have lost their network with the others, let pods in again:
the next pod that is networked gets a network with the parameters of now.  Removing the network cuts the node's own exec
streams, so that the removal is verified by a fresh read, even if the command failed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from conformance.disrupt.drain import Drain
from conformance.disrupt.felix import Felix
from conformance.disrupt.patience import Patience
from conformance.disrupt.third_party import ThirdPartyPods
from conformance.errors import EnvironmentBroken, ProbeBroken
from conformance.probe.host import Hosts
from conformance.timing import SYSTEM_CLOCK, Clock, until

HNS_NETWORK = "hns-network"
"""Name of the healer (``conformance.undo.hns_network``), and of the procedure's entries."""


class Entries(Protocol):
    """What announcing needs of the journal."""

    def procedure(self, name: str, arguments: Mapping[str, Any], why: str) -> Any:
        """Note that a healer must run, unless the entry is closed."""


def announce(journal: Entries, nodes: Sequence[str]) -> None:
    """Note, before the VNI is changed, that these Windows nodes' networks have to be looked at afterwards."""
    for node in nodes:
        journal.procedure(HNS_NETWORK, {"node": node}, f"the VNI is about to change under node {node}")


class Procedure:
    """The procedure on nodes of one cluster."""

    def __init__(
        self, drain: Drain, felix: Felix, hosts: Hosts, third_party_pods: ThirdPartyPods, patience: Patience, *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:  # fmt: skip
        self._drain, self._felix, self._hosts, self._third_party_pods = drain, felix, hosts, third_party_pods
        self._patience, self._clock = patience, clock

    def possible(self, node: str) -> None:
        """Raises MissingCapability where it could not be carried out: pods without a controller, Felix in no pod."""
        self._drain.possible(node)
        self._felix.pod(node)

    def refuse_budgets(self, node: str) -> None:
        """Raises MissingCapability where a PodDisruptionBudget forbids now what it begins with."""
        self._drain.refuse_budgets(node)

    def new_network(self, node: str) -> None:
        """Carry it out; afterwards the node takes pods again, also after a failure, unless others cordoned it.

        Raises MissingCapability (nothing was done), EnvironmentBroken, ProbeBroken, LockLost.
        """
        self.possible(node)
        try:
            self._drain.drain(node)
            before = {network.id: network.name for network in self._hosts.hns_networks(node) if network.pods}
            entry, theirs = self._third_party_pods.note(node)
            if before:
                said = self._hosts.remove_hns_networks(node, before)
                self._removed(node, before, said)
            self._felix.restart(node)
            self._third_party_pods.renewed(node, entry, theirs)
        finally:
            self._drain.uncordon(node)

    def _removed(self, node: str, before: Mapping[str, str], said: str) -> None:
        name = ", ".join(before.values())

        def look() -> set[str] | ProbeBroken:
            """A node that has just lost its network may be out of reach for a while."""
            try:
                return {hns_network.id for hns_network in self._hosts.hns_networks(node)}
            except ProbeBroken as broken:
                return broken

        settled = until(
            look,
            lambda now: not isinstance(now, ProbeBroken) and not before.keys() & now,
            within=self._patience.felix_restart,
            every=self._patience.poll_every,
            description=f"HNS network {name} of node {node} is removed",
            clock=self._clock,
        )
        if isinstance(settled.last, ProbeBroken):
            raise settled.last
        if not settled.converged:
            raise EnvironmentBroken(
                f"HNS network {name} of node {node} is still there {settled.seconds:.0f} s after its removal "
                f"({said.strip() or 'which said nothing'})"
            )
