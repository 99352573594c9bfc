# SPDX-License-Identifier: Apache-2.0
"""Nodes that die while a run uses them: observations on them then show nothing about Calico.

This does not apply if the cause may be Calico's own network plugin, or a change that this run made
to the node. Sources: Kubernetes' documents, "Node status", "Node heartbeats" and "Taint based
evictions".
"""

import datetime
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.errors import EnvironmentBroken, SuiteError
from conformance.kube.client import Kube, Obj
from conformance.kube.node_conditions import boot_id, closed, not_ready, tolerated
from conformance.model.facts import NodeFacts
from conformance.pods.placement import tolerations
from conformance.settings import Toleration

LEASES = "kube-node-lease"
LEASE = 40.0
"""The value of leaseDurationSeconds (seconds) if a kubelet's lease does not name it. The kubelet
renews its lease every quarter of this time."""
MISSED = 0.3  # the share of the lease's time after which a renewal was certainly missed
FEW_OTHERS = 2
"""If the cluster has at most this many nodes for each node that is checked, all nodes are listed:
one large answer costs less than several small answers."""
NETWORK_PLUGIN = re.compile(
    r"network plugin|NetworkPluginNotReady|NetworkReady=false|\bcni\b", re.IGNORECASE
)
REMEDY = "run again when the node is back, or on other nodes (--nodes); ask the owner of the node, or its cloud, why it was lost"


@dataclass
class NodeWatch:
    """Reads nodes after a problem, to find out whether a node died."""

    kube: Kube
    nodes: Sequence[NodeFacts] = ()
    """The nodes in their state when the run began."""
    changed: Callable[[str], bool] = lambda node: False
    """Returns whether this run has changed a node outside its own namespaces."""
    windows: tuple[str, ...] = ()
    """Covered nodes with Windows builds; the run ends once all of them are lost."""
    tolerated: tuple[Toleration, ...] = ()
    """Additional tolerations of the run's pods; any other NoExecute taint evicts them from the
    node."""
    begun: Mapping[str, tuple[float, float]] = field(init=False)
    """The leases when the run began. Clocks differ between nodes, so only the progress of each
    node's own lease counts."""

    def __post_init__(self) -> None:
        self.begun = self._leases()

    def lost(self, names: Iterable[str]) -> EnvironmentBroken | None:
        """Return the error if one of these nodes died, and neither Calico nor this run can be the
        cause."""
        reason = next(iter(self.lost_among(names).values()), "")
        if reason and self.windows and set(self.lost_among(self.windows)) == set(self.windows):
            self.kube.reach.end(f"no Windows node is left: {reason}")
        if not reason:
            return None
        broken = EnvironmentBroken(f"{reason}\n  do        {REMEDY}")
        broken.cause = reason.partition(":")[0]
        return broken

    def lost_among(self, names: Iterable[str]) -> dict[str, str]:
        """Return the reason for each of these nodes that died. Leave out nodes of whose death
        Calico or this run may be the cause."""
        return {
            name: f"node {name} was lost during the run: {why}"
            for name, why in self._unwell(names)
            if not self._own(name, why)
        }

    def unwell(self, names: Iterable[str]) -> str:
        """Describe which of the nodes have a problem that their network plugin or a change by this
        run may have caused. Return an empty string if none has."""
        return "; ".join(
            f"node {name} is unwell: {why}"
            for name, why in self._unwell(names)
            if self._own(name, why)
        )

    def closed(self, name: str) -> str:
        """Return ``, and node windows-1 is cordoned`` if the node takes no new pods of the run, and
        an empty string otherwise."""
        node = self._find(name)
        why = closed(node, tolerations(self.tolerated)) if node else ""
        return f", and node {name} is {why}: whoever drains it evicts its pods" if why else ""

    def silent(self, names: Iterable[str]) -> list[str]:
        """Return those of the nodes that missed a lease renewal and are not yet lost."""
        leases = self._leases()
        return [
            name
            for name in names
            if name in leases and MISSED < self._behind(name, leases) / leases[name][1] <= 1
        ]

    def _own(self, name: str, why: str) -> bool:
        return bool(NETWORK_PLUGIN.search(why)) or self.changed(name)

    def _unwell(self, names: Iterable[str]) -> list[tuple[str, str]]:
        leases = self._leases()
        nodes = self._read(list(dict.fromkeys(names)))
        return [(name, why) for name, node in nodes.items() if (why := self._why(node, leases))]

    def lists(self, names: Collection[str]) -> bool:
        """Return whether one list reads these nodes, because the cluster has few other nodes."""
        return len(names) > 1 and len(self.nodes) <= FEW_OTHERS * len(names)

    def _read(self, names: Sequence[str]) -> dict[str, Obj]:
        """Return these nodes as they are now, without those that :meth:`_find` does not find."""
        if self.lists(names):
            try:
                found = {node["metadata"]["name"]: node for node in self.kube.objects("v1", "Node")}
                return {name: found[name] for name in names if name in found}
            except SuiteError:  # the user may only read single nodes, or the next request succeeds
                pass
        return {name: node for name in names if (node := self._find(name))}

    def _find(self, name: str) -> Obj | None:
        """Return a node's present object; None if it was deleted, or it could not be read."""
        try:
            return self.kube.find("v1", "Node", name)
        except SuiteError:
            return None

    def _why(self, node: Obj, leases: Mapping[str, tuple[float, float]]) -> str:
        """Return the problem of a node; an empty string if it has none. For deleted nodes see
        :mod:`conformance.pods.nodes_gone`."""
        name = node["metadata"]["name"]
        known = (not_ready(node), self._evicting(node), self._made_anew(node))
        if why := next(filter(None, known), ""):
            return why
        behind = self._behind(name, leases)
        if name in leases and behind > leases[name][1]:
            return f"its kubelet has not renewed its lease for {behind:.0f} s, but kubelets of other nodes have"
        return ""

    def _evicting(self, node: Obj) -> str:
        """Describe the taint that evicts the run's pods from a node; an empty string if there is
        none."""
        for taint in (node.get("spec") or {}).get("taints") or []:
            if taint.get("effect") == "NoExecute" and not tolerated(
                taint, tolerations(self.tolerated)
            ):
                return f"taint {taint.get('key')}:NoExecute, which its pods do not tolerate"
        return ""

    def _made_anew(self, node: Obj) -> str:
        """Return how a node changed since the run began: it was created again, or booted again.
        Empty: it did not change."""
        meta = node["metadata"]
        boot = boot_id(node)
        before = next((node for node in self.nodes if node.name == meta["name"]), None)
        if before and before.uid not in ("", meta.get("uid")):
            return f"it was deleted, and created again at {meta.get('creationTimestamp')} (UID {meta.get('uid')})"
        if before and boot and before.boot not in ("", boot):
            return f"it was rebooted (boot ID {boot} now, {before.boot} when the run began)"
        return ""

    def _behind(self, name: str, leases: Mapping[str, tuple[float, float]]) -> float:
        """Return how many seconds the node's lease renewals have fallen behind those of other nodes
        since the run began; 0: unknown."""
        gone_on = {
            node: leases[node][0] - self.begun[node][0]
            for node in leases.keys() & self.begun.keys()
        }
        return max(gone_on.values(), default=0.0) - gone_on[name] if name in gone_on else 0.0

    def _leases(self) -> dict[str, tuple[float, float]]:
        """Map each node to its kubelet's last lease renewal (Unix s, by the nodes' clocks) and
        the lease's duration (s).
        """
        try:
            found = self.kube.objects("coordination.k8s.io/v1", "Lease", LEASES)
        except SuiteError:
            return {}
        specs = {lease["metadata"]["name"]: lease.get("spec") or {} for lease in found}
        return {
            name: (
                datetime.datetime.fromisoformat(spec["renewTime"]).timestamp(),
                float(spec.get("leaseDurationSeconds") or LEASE),
            )
            for name, spec in specs.items()
            if spec.get("renewTime")
        }
