# SPDX-License-Identifier: Apache-2.0
"""Whether the token of Calico's CNI plugin on a Windows node has ended, as a fact.  It judges
nothing.

calico-node has it renewed long before its end; where that does not happen, pods stop starting once
it has ended (calico#8577).  That it has not ended shows something only where calico-node has run
for longer than a token lives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from conformance.errors import Unseen
from conformance.facts.diagnostics_bundle import calico_pods
from conformance.facts.node_readings import Hosts
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import list_at, value_at
from conformance.model.facts import Fact, NodeFacts

LIFE = timedelta(hours=24)
"""How long a token lives: defaultCNITokenValiditySeconds
(projectcalico/calico@v3.31.2:node/pkg/cni/token_watch.go)."""


@dataclass(frozen=True)
class CniTokens:
    """Reads of one test."""

    kube: Kube
    hosts: Hosts
    windows: Sequence[NodeFacts]
    """The nodes that may be looked into."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def ended(self, node: str) -> Fact[bool]:
        """Whether a node's token has ended; not known where it has not, and calico-node began since
        it was new."""
        ends = [end for end in self.hosts.cni_tokens(node) if end is not None]
        if not ends:
            return Fact(
                None, f"no token that ends is in a kubeconfig of Calico's CNI plugin on node {node}"
            )
        told = f"token of the CNI plugin on node {node} ends at {min(ends):%Y-%m-%dT%H:%M:%SZ}"
        if min(ends) <= self.now:
            return Fact(True, f"{told}, which is over")
        begun = max(
            (began for pod in calico_pods(self.kube, [node]) for began in _began(pod)),
            default=None,
        )
        if begun is None or self.now - begun < LIFE:
            since = f"runs since {begun:%Y-%m-%dT%H:%M:%SZ}" if begun else "is not seen to run"
            yet = f"{Unseen.BEGINS} yet: " if begun else ""
            return Fact(
                None,
                f"{yet}{told}, and calico-node there {since}: shorter than the 24 h that a token lives",
            )
        return Fact(
            False,
            f"{told}, and calico-node there runs since {begun:%Y-%m-%dT%H:%M:%SZ}: it was renewed",
        )


def _began(pod: Obj) -> list[datetime]:
    """When the containers of a pod began that run."""
    return [
        datetime.fromisoformat(began)
        for status in list_at(pod, "status", "containerStatuses")
        if (began := value_at(status, "state", "running", "startedAt"))
    ]
