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
        """Return whether a node's token has expired. The fact is unknown if the token is valid, but
        calico-node has not run for longer than a token is valid."""
        ends = [end for end in self.hosts.cni_tokens(node) if end is not None]
        if not ends:
            return Fact(
                None,
                f"no kubeconfig of Calico's CNI plugin on node {node} has a token with an expiry time",
            )
        text = f"token of the CNI plugin on node {node} expires at {min(ends):%Y-%m-%dT%H:%M:%SZ}"
        if min(ends) <= self.now:
            return Fact(True, f"{text}, which is in the past")
        begun = max(
            (began for pod in calico_pods(self.kube, [node]) for began in _began(pod)),
            default=None,
        )
        if begun is None or self.now - begun < LIFE:
            since = f"has run since {begun:%Y-%m-%dT%H:%M:%SZ}" if begun else "does not run"
            yet = f"{NotObservable.BEGINS} yet: " if begun else ""
            return Fact(
                None,
                f"{yet}{text}, but calico-node there {since}; only a run of more than 24 h, "
                "the lifetime of a token, shows that tokens are renewed",
            )
        return Fact(
            False,
            f"{text}, and calico-node there has run since {begun:%Y-%m-%dT%H:%M:%SZ}: "
            "the token was renewed",
        )


def _began(pod: Obj) -> list[datetime]:
    """Return the time at which each running container of a pod started."""
    return [
        datetime.fromisoformat(began)
        for status in list_at(pod, "status", "containerStatuses")
        if (began := value_at(status, "state", "running", "startedAt"))
    ]
