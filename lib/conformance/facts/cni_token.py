# SPDX-License-Identifier: Apache-2.0
"""Reads whether the token of Calico's CNI plugin on a Windows node has expired. The module judges
nothing.

calico-node renews the token long before it expires. Otherwise, no pod can start after the expiry
(calico#8577). A valid token is evidence of renewal only if calico-node has run for longer than a
token is valid.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from conformance.errors import NotObservable
from conformance.facts.diagnostics_bundle import calico_pods
from conformance.facts.node_readings import Hosts
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import list_at, value_at
from conformance.model.facts import Fact, NodeFacts

LIFE = timedelta(hours=24)
"""The time for which a token is valid: defaultCNITokenValiditySeconds
(projectcalico/calico@v3.31.2:node/pkg/cni/token_watch.go)."""


@dataclass(frozen=True)
class CniTokens:
    """The facts about tokens that a single test reads."""

    kube: Kube
    hosts: Hosts
    windows: Sequence[NodeFacts]
    """The nodes that may be read by HostProcess pods."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def ended(self, node: str) -> Fact[bool]:
        """Return whether a node's token has expired. Unknown: the token is valid, but calico-node
        has not run for longer than a token is valid."""
        ends = [end for end in self.hosts.cni_tokens(node) if end is not None]
        if not ends:
            return Fact(
                None,
                "no token with an expiry time is in a kubeconfig of Calico's CNI plugin on "
                f"node {node}",
            )
        text = f"token of the CNI plugin on node {node} ends at {min(ends):%Y-%m-%dT%H:%M:%SZ}"
        if min(ends) <= self.now:
            return Fact(True, f"{text}, which is over")
        begun = max(
            (began for pod in calico_pods(self.kube, [node]) for began in _began(pod)),
            default=None,
        )
        if begun is None or self.now - begun < LIFE:
            since = f"runs since {begun:%Y-%m-%dT%H:%M:%SZ}" if begun else "is not seen to run"
            yet = f"{NotObservable.BEGINS} yet: " if begun else ""
            return Fact(
                None,
                f"{yet}{text}, and calico-node there {since}: shorter than the 24 h that a token lives",
            )
        return Fact(
            False,
            f"{text}, and calico-node there runs since {begun:%Y-%m-%dT%H:%M:%SZ}: it was renewed",
        )


def _began(pod: Obj) -> list[datetime]:
    """Return when each running container of a pod started."""
    return [
        datetime.fromisoformat(began)
        for status in list_at(pod, "status", "containerStatuses")
        if (began := value_at(status, "state", "running", "startedAt"))
    ]
