# SPDX-License-Identifier: Apache-2.0
"""The form of literal cases: a small world, a policy, the verdict on a packet, and the document
that supports it.

They cover cases that the golden tables lack, and cases that no document decides
(``cases_of_policies``, ``cases_of_rules``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests import fast_yaml

Obj = dict[str, Any]

WORLD = """
- kind: Node
  metadata: {name: win, labels: {kubernetes.io/os: windows}}
  status: {addresses: [{type: InternalIP, address: 10.0.0.9}]}
- kind: Node
  metadata: {name: lin, labels: {kubernetes.io/os: linux}}
  status: {addresses: [{type: InternalIP, address: 10.0.0.8}]}
- {kind: Namespace, metadata: {name: shop, labels: {team: blue}}}
- {kind: Namespace, metadata: {name: bank, labels: {team: red}}}
- {kind: ServiceAccount, metadata: {name: teller, namespace: bank, labels: {may: pay}}}
- kind: Pod
  metadata: {name: web, namespace: shop, labels: {app: web, level: gold}}
  spec:
    nodeName: win
    containers:
    - {ports: [{name: http, containerPort: 8080, protocol: TCP}, {name: admin, containerPort: 9090, protocol: TCP}]}
  status: {podIP: 10.1.0.1}
- kind: Pod
  metadata: {name: client, namespace: shop, labels: {app: client, level: silver, note: ""}}
  spec: {nodeName: lin, containers: [{}]}
  status: {podIP: 10.1.0.2}
- kind: Pod
  metadata: {name: till, namespace: bank, labels: {app: till, level: gold}}
  spec: {nodeName: lin, serviceAccountName: teller, containers: [{}]}
  status: {podIP: 10.2.0.1}
- kind: NetworkSet
  metadata: {name: lan, namespace: shop, labels: {role: lan}}
  spec: {nets: [198.51.100.0/24, 203.0.113.0/24]}
- kind: EndpointSlice
  metadata: {name: tills-1, namespace: bank, labels: {kubernetes.io/service-name: tills}}
  ports: [{port: 80, protocol: TCP}]
  endpoints: [{addresses: [10.2.0.1], conditions: {ready: true}}, {addresses: [10.2.0.7], conditions: {ready: false}}]
"""


@dataclass(frozen=True)
class Case:
    """Policies in the world, and rows with their verdicts on packets."""

    name: str
    source: str
    """The document, or the finding, that supports the verdicts."""
    policies: str
    rows: tuple[str, ...]
    """``ingress shop/web from 10.1.0.2 TCP 80: promised, on Windows``; a single word stands for
    both verdicts."""
    around: str = ""
    """Objects in addition to the world's."""
    objects: list[Obj] = field(init=False)
    world: list[Obj] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "objects", fast_yaml.load(self.policies) or [])
        object.__setattr__(
            self, "world", fast_yaml.load(WORLD) + (fast_yaml.load(self.around) or [])
        )


def calico(name: str, spec: str, *, kind: str = "NetworkPolicy", namespace: str = "shop") -> str:
    """Return a Calico policy as one entry of a list."""
    space = "" if "Global" in kind else f", namespace: {namespace}"
    meta = f"metadata: {{name: {name}{space}}}"
    return f"- {{apiVersion: projectcalico.org/v3, kind: {kind}, {meta}, spec: {{{spec}}}}}\n"


def kubernetes(name: str, spec: str, *, namespace: str = "shop") -> str:
    """Return a Kubernetes NetworkPolicy as one entry of a list."""
    meta = f"metadata: {{name: {name}, namespace: {namespace}}}"
    return (
        f"- {{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, {meta}, spec: {{{spec}}}}}\n"
    )


def tier(name: str, spec: str) -> str:
    """Return a tier as one entry of a list."""
    return f"- {{apiVersion: projectcalico.org/v3, kind: Tier, metadata: {{name: {name}}}, spec: {{{spec}}}}}\n"


ALLOW = "ingress: [{action: Allow}]"
DENY = "ingress: [{action: Deny}]"
