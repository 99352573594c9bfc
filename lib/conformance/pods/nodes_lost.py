# SPDX-License-Identifier: Apache-2.0
"""Nodes that die while a run uses them: what was seen there then says nothing about Calico.

Not so where Calico's own network plugin, or something that this run has done to the node, may be what made it so.
Sources: Kubernetes' documents, "Node status", "Node heartbeats" and "Taint based evictions".
"""

import datetime
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.errors import EnvironmentBroken, SuiteError
from conformance.kube.client import Kube, Obj
from conformance.kube.node_conditions import boot_id, closed, not_ready, tolerated
from conformance.model.facts import NodeFacts
from conformance.pods.placement import tolerations
from conformance.settings import Toleration

LEASES = "kube-node-lease"
LEASE = 40.0
"""s.  A kubelet's leaseDurationSeconds, where its lease does not say; it renews every quarter of that."""
MISSED = 0.3  # of that: a renewal has been missed
NETWORK_PLUGIN = re.compile(
    r"network plugin|NetworkPluginNotReady|NetworkReady=false|\bcni\b", re.IGNORECASE
)
REMEDY = "run again when the node is back, or on others (--nodes); its cloud or its owner knows why it went"


@dataclass
class NodeWatch:
    """Looks at nodes once something is wrong."""

    kube: Kube
    nodes: Sequence[NodeFacts] = ()
    """As they were when the run began."""
    changed: Callable[[str], bool] = lambda node: False
    """Whether this run has done something to a node beyond its own namespaces."""
    windows: tuple[str, ...] = ()
    """Nodes whose Windows builds the run decides on: once all of them are lost, it ends."""
    tolerated: tuple[Toleration, ...] = ()
    """What the run's pods tolerate beyond the usual; any other taint with NoExecute takes them from its node."""
    begun: Mapping[str, tuple[float, float]] = field(init=False)
    """The leases when the run began: clocks differ from node to node, so that only what each has gone on tells."""

    def __post_init__(self) -> None:
        self.begun = self._leases()

    def lost(self, names: Iterable[str]) -> EnvironmentBroken | None:
        """What to raise where one of these nodes died, and neither Calico nor this run may be why."""
        told = next(iter(self.lost_among(names).values()), "")
        if told and self.windows and set(self.lost_among(self.windows)) == set(self.windows):
            self.kube.reach.end(f"no node of any Windows build is left: {told}")
        return EnvironmentBroken(f"{told}\n  do        {REMEDY}") if told else None

    def lost_among(self, names: Iterable[str]) -> dict[str, str]:
        """Which of these nodes died so, each with what is said of it."""
        return {
            name: f"node {name} was lost during the run: {why}"
            for name, why in self._unwell(names)
            if not self._own(name, why)
        }

    def unwell(self, names: Iterable[str]) -> str:
        """Nodes among these that died of their network plugin, or after this run has changed them; empty: none."""
        return "; ".join(
            f"node {name} is unwell: {why}"
            for name, why in self._unwell(names)
            if self._own(name, why)
        )

    def closed(self, name: str) -> str:
        """``, and node windows-1 is cordoned`` where it takes no new pods of the run's by now; empty: it does."""
        node = self._find(name)
        why = closed(node, tolerations(self.tolerated)) if node else ""
        return f", and node {name} is {why}: who drains it takes its pods away" if why else ""

    def silent(self, names: Iterable[str]) -> list[str]:
        """Those among these whose kubelet has missed a renewal of its lease, and that are not yet known to be lost."""
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
        return [(name, why) for name in dict.fromkeys(names) if (why := self._why(name, leases))]

    def _find(self, name: str) -> Obj | None:
        """Return a node as it is now; None: it was deleted, or this run may not read it."""
        try:
            return self.kube.find("v1", "Node", name)
        except SuiteError:
            return None

    def _why(self, name: str, leases: Mapping[str, tuple[float, float]]) -> str:
        node = self._find(name)  # a deleted node: conformance.pods.nodes_gone describes it
        if node is None:
            return ""
        known = (not_ready(node), self._evicting(node), self._made_anew(node))
        if why := next(filter(None, known), ""):
            return why
        behind = self._behind(name, leases)
        if name in leases and behind > leases[name][1]:
            return f"its kubelet has not renewed its lease for {behind:.0f} s, by what others have renewed theirs"
        return ""

    def _evicting(self, node: Obj) -> str:
        """The taint that takes the run's pods from a node, in words; empty: there is none."""
        for taint in (node.get("spec") or {}).get("taints") or []:
            if taint.get("effect") == "NoExecute" and not tolerated(
                taint, tolerations(self.tolerated)
            ):
                return f"taint {taint.get('key')}:NoExecute, which its pods do not tolerate"
        return ""

    def _made_anew(self, node: Obj) -> str:
        """How a node changed since the run began: made anew, or booted again; empty: it did not."""
        meta = node["metadata"]
        boot = boot_id(node)
        before = next((one for one in self.nodes if one.name == meta["name"]), None)
        if before and before.uid not in ("", meta.get("uid")):
            return f"it was deleted, and made anew at {meta.get('creationTimestamp')} (uid {meta.get('uid')})"
        if before and boot and before.boot not in ("", boot):
            return f"it was booted anew (boot id {boot}, at the run's beginning {before.boot})"
        return ""

    def _behind(self, name: str, leases: Mapping[str, tuple[float, float]]) -> float:
        """s.  How much less than others' the node's lease has gone on since the run began; 0: not known."""
        gone_on = {
            node: leases[node][0] - self.begun[node][0]
            for node in leases.keys() & self.begun.keys()
        }
        return max(gone_on.values(), default=0.0) - gone_on[name] if name in gone_on else 0.0

    def _leases(self) -> dict[str, tuple[float, float]]:
        """Node to when its kubelet renewed its lease last (Unix s, by the nodes' clocks), and for how long (s)."""
        try:
            found = self.kube.objects("coordination.k8s.io/v1", "Lease", LEASES)
        except SuiteError:
            return {}
        specs = {lease["metadata"]["name"]: lease.get("spec") or {} for lease in found}
        return {
            name: (_seconds(spec["renewTime"]), float(spec.get("leaseDurationSeconds") or LEASE))
            for name, spec in specs.items()
            if spec.get("renewTime")
        }


def _seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
