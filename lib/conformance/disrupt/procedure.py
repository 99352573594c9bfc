# SPDX-License-Identifier: Apache-2.0
"""The documented way to give a Windows node new VXLAN parameters (VXLAN-10).

First drain the node. Then remove the HNS network of its pods (named by KUBE_NETWORK) and restart
Calico there. Replace the pods of DaemonSets, since a drain does not evict them and they have lost
their network. Then uncordon the node: its next pod makes a network with the present parameters.
Removing the network also cuts the exec streams on the node. Therefore a new read verifies the
removal, even if the command failed.

No pod of another owner may lose its network because of this procedure. The node's pods are listed
again right before and right after the removal. At the end, each pod that was on the node must have
an HNS endpoint again.
"""

from collections.abc import Collection, Mapping, Sequence

from conformance.disrupt.drain import Drain
from conformance.disrupt.felix import Felix
from conformance.disrupt.healer import Healer
from conformance.disrupt.patience import Patience
from conformance.disrupt.third_party import ThirdPartyPods
from conformance.disrupt.vni import Vni
from conformance.errors import (
    EnvironmentBroken,
    LockLost,
    MissingCapability,
    ProbeBroken,
    first_line,
)
from conformance.kube.client import Obj
from conformance.pods.third_party import daemonset_of, is_own, label
from conformance.probe.host import Hosts
from conformance.timing import SYSTEM_CLOCK, Clock, until

HNS_NETWORK = Healer(
    name="hns-network",
    why="the VNI is about to change under node {node}",
    undo=lambda parts, arguments: parts.procedure.heal(str(arguments["node"]), parts.vni),
)
"""The name of the journal entry that is recorded before the VNI is changed. A restore undoes the
entries in reverse order, so it restores the VNI before it undoes this entry."""
LOOKS = 3
"""After this many checks without an HNS endpoint, a pod counts as dead. Before that, it may just be
restarting."""


class NetworkStays(EnvironmentBroken):
    """The node could not be emptied of other owners' pods, so its HNS network was not removed."""


class Procedure:
    """The procedure on nodes of a cluster."""

    def __init__(
        self,
        drain: Drain,
        felix: Felix,
        hosts: Hosts,
        third_party_pods: ThirdPartyPods,
        patience: Patience,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._drain = drain
        self._felix = felix
        self._hosts = hosts
        self._third_party_pods = third_party_pods
        self._patience = patience
        self._clock = clock

    def possible(self, node: str) -> None:
        """Raise MissingCapability if the procedure could not be carried out. Pods are a reason if
        they have no controller, take too long to end, or would come back to a cordoned node. A
        Felix that runs in no pod is another reason."""
        self._drain.refuse_returning(node)
        self._felix.pod(node)

    def refuse_budgets(self, node: str) -> None:
        """Raise MissingCapability if a PodDisruptionBudget now forbids the drain with which the
        procedure begins."""
        self._drain.refuse_budgets(node)

    def new_network(self, node: str) -> None:
        """Carry out the procedure. Afterwards, even after a failure, the node accepts pods again,
        unless another user cordoned it.

        Raise MissingCapability (nothing was done), NetworkStays, EnvironmentBroken, ProbeBroken,
        LockLost.
        """
        self.possible(node)
        try:
            lost = self._carry_out(node)
        finally:
            self._drain.uncordon(node)
        self._networked(node, {pod["metadata"]["uid"] for pod in lost})

    def revive(self, node: str) -> None:
        """Replace the pods that lost their network because a run began the procedure and did not
        complete it.

        Raise EnvironmentBroken if a pod still has no HNS endpoint at the end, or ProbeBroken.
        """
        dead = until(
            lambda: self._dead(node),
            lambda found: not found,
            within=(LOOKS - 1) * self._patience.poll_every,
            every=self._patience.poll_every,
            description=f"pods of node {node} have HNS endpoints",
            clock=self._clock,
        ).last
        if dead:
            self._renew(node, dead)
            self._networked(node, {pod["metadata"]["uid"] for pod in dead})

    def heal(self, node: str, vni: Vni) -> None:
        """If the node has another VNI than the configured VNI, give it a network with the
        configured VNI. Give the pods their network back.

        Raise EnvironmentBroken if the node still has another VNI, or if a pod that was there has no
        HNS endpoint.
        """
        wanted = vni.configured()
        vni.delivered(wanted, linux=(), windows=[node])
        vsid = vni.vsid(node)
        if vsid in (wanted, None):
            # the earlier run may have ended after it had removed the network
            self._drain.uncordon(node)
            self.revive(node)
            return
        try:
            self.new_network(node)
        except (MissingCapability, NetworkStays) as refused:
            # the remedy only helps a run that begins, so it is left out
            remedy = f"; {getattr(refused, 'remedy', '')}"
            raise EnvironmentBroken(
                f"the HNS network of node {node} keeps VSID {vsid}, although the VNI is {wanted}: "
                f"{first_line(refused).removesuffix(remedy)}; resolve this first"
            ) from refused
        settled = until(
            lambda: vni.vsid(node),
            lambda found: found in (wanted, None),
            within=self._patience.pod_ready,
            every=self._patience.poll_every,
            description=f"node {node} has a network with VNI {wanted}",
            clock=self._clock,
        )
        if not settled.converged:
            raise EnvironmentBroken(
                f"node {node} still has an HNS network with VSID {settled.last} instead of VNI "
                f"{wanted}, although the node was "
                "drained, its network removed and Calico restarted; restart the node"
            )

    def _carry_out(self, node: str) -> list[Obj]:
        """Drain the node, give it a new network, and replace the pods that lost their network.
        Return these pods."""
        try:
            self._drain.drain(node)
            before = {
                network.id: network.name
                for network in self._hosts.hns_networks(node)
                if network.pods
            }
            entry, theirs = self._third_party_pods.note(node)
            there = self._drain.emptied(node)
        except LockLost:
            raise
        except (EnvironmentBroken, MissingCapability) as refused:
            raise NetworkStays(first_line(refused)) from refused
        if before:
            self._removed(node, before, self._hosts.remove_hns_networks(node, before))
        lost = list(
            {pod["metadata"]["uid"]: pod for pod in (*there, *self._drain.networked(node))}.values()
        )
        self._felix.restart(node)
        self._third_party_pods.renewed(node, entry, theirs)
        noted = {pod["uid"] for pod in theirs}
        self._renew(node, [pod for pod in lost if pod["metadata"]["uid"] not in noted])
        return lost

    def _renew(self, node: str, pods: Sequence[Obj]) -> None:
        """Replace pods without a network: other owners' pods of DaemonSets as
        :class:`ThirdPartyPods` does, all other pods by eviction."""
        uids = {pod["metadata"]["uid"] for pod in pods if daemonset_of(pod) and not is_own(pod)}
        self._third_party_pods.renew(
            node, [pod for pod in self._third_party_pods.on(node) if pod["uid"] in uids]
        )
        self._drain.renew(node, [pod for pod in pods if pod["metadata"]["uid"] not in uids])

    def _networked(self, node: str, lost: Collection[str]) -> None:
        """Wait until each of these pods (by uid) is gone or has an HNS endpoint. Raise
        EnvironmentBroken, ProbeBroken."""
        if not lost:
            return
        settled = until(
            lambda: self._dead(node, lost),
            lambda dead: not dead,
            within=self._patience.pod_ready,
            every=self._patience.poll_every,
            description=f"pods of node {node} have HNS endpoints",
            clock=self._clock,
        )
        if not settled.converged:
            raise EnvironmentBroken(
                f"pods of node {node} lost their network and have no HNS endpoint "
                f"{settled.seconds:.0f} s later: "
                f"{', '.join(map(label, settled.last))}; delete these pods, so that their "
                "controllers create new pods"
            )

    def _dead(self, node: str, uids: Collection[str] | None = None) -> list[Obj]:
        """Return the pods on a node without an HNS endpoint.

        If ``uids`` is given, only these pods count; otherwise all pods that have an address.
        """
        chosen = [
            pod
            for pod in self._drain.networked(node)
            if not pod["metadata"].get("deletionTimestamp")
            and (bool(_addresses(pod)) if uids is None else pod["metadata"]["uid"] in uids)
        ]
        there = (
            {endpoint.address for endpoint in self._hosts.hns_endpoints(node)} if chosen else set()
        )
        return [pod for pod in chosen if not there & _addresses(pod)]

    def _removed(self, node: str, before: Mapping[str, str], text: str) -> None:
        name = ", ".join(before.values())

        def look() -> set[str] | ProbeBroken:
            """Return the ids of the node's HNS networks, or the error: a node that has just lost
            its network may be unreachable for a while."""
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
                f"({text.strip() or 'the removal printed nothing'})"
            )


def _addresses(pod: Obj) -> set[str]:
    status = pod.get("status") or {}
    return {
        str(entry.get("ip"))
        for entry in [*(status.get("podIPs") or ()), {"ip": status.get("podIP")}]
        if entry.get("ip")
    }
