# SPDX-License-Identifier: Apache-2.0
"""The Windows nodes on which Felix should run: yes, no, or unknown for each node. This module does
not find out whether Felix really runs there.

If Felix should run on a node and does not, Calico is broken. If Felix should not run there, the
node has no Calico to judge. If Felix is a service (AKS' add-on, Calico's zip file) or a process of
an agent (RKE2), the API does not show this. In this case a reading of the node decides
(:mod:`conformance.facts.node_readings`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.facts.calico_api import ADDRESS, TUNNEL
from conformance.facts.calico_workloads import WINDOWS, CalicoWorkloads
from conformance.facts.workloads import described
from conformance.kube.client import Obj
from conformance.kube.fields import list_at, mapping_at, value_at
from conformance.model.facts import Fact, NodeFacts

WITHOUT = {
    "gke": "GKE runs no Calico on Windows nodes",
    "rke1": "RKE1 runs no Calico on Windows nodes",
    "k3s": "k3s installs no Calico on Windows nodes",
}
"""Platforms whose Windows nodes have no Calico, unless an administrator installed it by hand."""
TRACES = (ADDRESS, TUNNEL)
"""Annotations that a node gets from Calico if Calico is its network."""
Fits = Callable[[str | None, Sequence[str]], bool]
FITS: dict[str, Fits] = {
    "In": lambda value, wanted: value in wanted,
    "NotIn": lambda value, wanted: value not in wanted,
    "Exists": lambda value, wanted: value is not None,
    "DoesNotExist": lambda value, wanted: value is None,
}
"""The test of each operator of node selector terms; comparisons of numbers are assumed to be
fulfilled."""


def selects(daemonset: Obj | None, node: NodeFacts) -> bool:
    """Return whether a DaemonSet of Calico on Windows selects a node, by the node's operating
    system, labels and name."""
    spec = mapping_at(daemonset, "spec", "template", "spec")
    labels: dict[str, Any] = {"kubernetes.io/os": node.os, **node.labels}
    affinity = mapping_at(spec, "affinity", "nodeAffinity")
    terms = list_at(affinity, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    return (
        daemonset is not None
        and mapping_at(spec, "nodeSelector").items() <= labels.items()
        and (
            not terms or any(_holds(term, labels | {"metadata.name": node.name}) for term in terms)
        )
    )


def _holds(term: Obj, labels: Mapping[str, str]) -> bool:
    def anything(value: str | None, wanted: Sequence[str]) -> bool:
        return True

    every = [*list_at(term, "matchExpressions"), *list_at(term, "matchFields")]
    return bool(every) and all(  # a term without any requirement selects nothing
        FITS.get(one["operator"], anything)(labels.get(one["key"]), one.get("values") or ())
        for one in every
    )


@dataclass(frozen=True, kw_only=True)
class FelixMeant:
    """The data in a cluster's API about Felix on Windows nodes."""

    found: CalicoWorkloads
    pods: Mapping[str, str]
    """The name of the calico-node pod on each node."""
    unread: str
    """The reason why Calico's workloads could not be read; empty if they could be read."""
    installation: Obj | None
    blocks: Mapping[str, Sequence[str]]
    platform: str | None
    networked: str
    """The reason why Calico certainly leaves annotations or blocks on each node where it is the
    network; empty if Calico may leave none."""

    def on(self, node: NodeFacts) -> Fact[bool]:
        """Return whether Felix should run on a Windows node."""
        if pod := self.pods.get(node.name):
            return Fact(True, f"pod {pod} is on the node")
        if selects(self.found.windows, node):
            return Fact(True, f"{described(self.found.windows)} selects the node")
        if nothing := self._nothing_runs():
            return Fact(False, nothing)
        asked = value_at(self.installation, "spec", "calicoNetwork", "windowsDataplane")
        if asked == "HNS" and self.found.windows is None:
            return Fact(True, "Installation default .spec.calicoNetwork.windowsDataplane HNS")
        if trace := self._trace(node):
            return Fact(None, f"not known: {trace}, but no DaemonSet selects the node")
        return self._without_trace()

    def _nothing_runs(self) -> str:
        """Return a message if no part of Calico runs in the cluster, apart from CRDs. Return an
        empty string if a part runs, or if it is not known whether a part runs."""
        there = self.found.linux or self.found.windows or self.pods or self.unread
        return "" if there else "the cluster has neither a DaemonSet nor a pod of calico-node"

    def _trace(self, node: NodeFacts) -> str:
        """Return the annotation or block that Calico has left on a node; an empty string if there
        is neither."""
        if key := next((key for key in TRACES if key in node.annotations), ""):
            return f"annotation {key} of node {node.name}"
        return f"node {node.name} has a block" if node.name in self.blocks else ""

    def _without_trace(self) -> Fact[bool]:
        if self.found.windows is not None:
            return Fact(False, f"{described(self.found.windows)} does not select the node")
        if self.platform in WITHOUT:
            return Fact(False, WITHOUT[self.platform])
        if self.networked and not self.unread and self.platform != "rke2":
            return Fact(False, self.networked)
        return Fact(None, f"not known: {self.unread or 'nothing in the API shows it'}")


LOOKED_FOR = (
    f"(1) a pod of {WINDOWS} on the node, (2) a DaemonSet of Calico that selects the node, "
    "(3) windowsDataplane HNS in Installation default, (4) annotations and IPAM blocks of Calico "
    "for the node"
)
"""The signs that Felix should run on a Windows node."""
