# SPDX-License-Identifier: Apache-2.0
"""Policy from objects only, without a cluster: the policy of each pod, and the verdicts on packets.

The objects come from manifests. The graph and the renderers are those of a lab's Felixes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hybridlab.dataplane.model import Acl, EndpointProgram
from hybridlab.policy import Obj
from hybridlab.policy.acls import AclListBuilder
from hybridlab.policy.admin_policy import from_admin, from_cluster
from hybridlab.policy.kubernetes_policy import from_kubernetes
from hybridlab.policy.objects import (
    labels_and_name,
    network_set,
    pod_facts,
    slice_members,
    tier_facts,
)
from hybridlab.policy.policy import Policy, from_calico
from hybridlab.policy.policy_sets import LeftOut
from hybridlab.policy.release import Release
from hybridlab.policy.render import program
from hybridlab.policy.resolve import Graph
from tests.golden.policy_packets import Packet, allowed_by_list, allowed_by_program

_CALICO = "projectcalico.org"
_KUBERNETES = "networking.k8s.io"
_ADMIN = "policy.networking.k8s.io"
_POLICIES: Mapping[tuple[str, str], Callable[[Obj], Policy | None]] = {
    (_KUBERNETES, "NetworkPolicy"): from_kubernetes,
    (_CALICO, "StagedKubernetesNetworkPolicy"): from_kubernetes,
    (_ADMIN, "AdminNetworkPolicy"): from_admin,
    (_ADMIN, "BaselineAdminNetworkPolicy"): from_admin,
    (_ADMIN, "ClusterNetworkPolicy"): from_cluster,
    **{
        (_CALICO, kind): from_calico
        for kind in (
            "NetworkPolicy",
            "GlobalNetworkPolicy",
            "StagedNetworkPolicy",
            "StagedGlobalNetworkPolicy",
        )
    },
}
_WITHOUT_MEANING = frozenset({"HostEndpoint", "Node", "Service", "List"})
"""Kinds that have no effect on policy at pods."""


class UnknownKind(ValueError):
    """A kind that this release of Calico does not read."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"unknown kind {kind}")


@dataclass(frozen=True)
class Endpoint:
    """A pod to which policy applies."""

    uid: str
    namespace: str
    name: str
    node: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class WindowsPolicy:
    """The policy of a pod on a Windows node."""

    acls: tuple[Acl, ...]
    left_out: tuple[LeftOut, ...]


@dataclass
class Objects:
    """All objects that affect policy, added one by one."""

    release: Release
    hosts: tuple[str, ...] = ()
    """The Windows node's own addresses, ``a.b.c.d/32``."""
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    """Map ``namespace/name`` to the endpoint."""
    unread: list[str] = field(default_factory=list)
    """The objects that were left out, with the reasons."""

    def __post_init__(self) -> None:
        self.graph = Graph(self.release)
        self._builder = AclListBuilder(self.release, self.graph.members, self.hosts)

    def take(self, objects: Iterable[Obj]) -> None:
        """Add objects in their order; leave out objects that cannot be used."""
        for obj in objects:
            try:
                self._take(obj)
            except UnknownKind as error:
                self.unread.append(str(error))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self.unread.append(f"{describe(obj)}: {error}")

    def _take(self, obj: Obj) -> None:
        kind = obj["kind"]
        meta = obj["metadata"]
        group = obj["apiVersion"].rpartition("/")[0]
        name = meta["name"]
        namespace = meta.get("namespace", "")
        group = _CALICO if group == f"crd.{_CALICO}" else group
        if (group, kind) in _POLICIES:
            self._check_served(kind)
            policy = _POLICIES[group, kind](obj)
            if policy is not None:
                self.graph.set_policy(policy)
        elif kind == "Namespace":
            self.graph.set_namespace(name, labels_and_name(obj))
        elif kind == "ServiceAccount":
            self.graph.set_service_account(namespace, name, labels_and_name(obj))
        elif kind == "Pod":
            self._take_pod(obj)
        elif kind == "EndpointSlice":
            service = (meta.get("labels") or {}).get("kubernetes.io/service-name")
            if service:
                self.graph.set_slice(
                    (namespace, service), f"{namespace}/{name}", *slice_members(obj)
                )
        elif kind in {"NetworkSet", "GlobalNetworkSet"}:
            self.graph.set_network_set(f"{kind}/{namespace}/{name}", network_set(obj))
        elif kind == "Tier":
            self.graph.set_tier(name, tier_facts(obj))
        elif kind not in _WITHOUT_MEANING:
            raise ValueError("policy at pods does not depend on this kind")

    def _check_served(self, kind: str) -> None:
        later = self.release.has_cluster_network_policy
        if (kind == "ClusterNetworkPolicy" and not later) or (
            kind.endswith("AdminNetworkPolicy") and later
        ):
            raise UnknownKind(kind)

    def _take_pod(self, pod: Obj) -> None:
        meta = pod["metadata"]
        uid = meta.get("uid") or f"{meta['namespace']}/{meta['name']}"
        facts = pod_facts({**pod, "metadata": {**meta, "uid": uid}})
        if facts is None:
            raise ValueError("it has no network of its own, or no node")
        self.graph.set_pod(facts)
        self.endpoints[f"{facts.namespace}/{facts.name}"] = Endpoint(
            uid, facts.namespace, facts.name, facts.node
        )

    def windows(self, endpoint: Endpoint) -> WindowsPolicy:
        """Return the policy of an endpoint on a Windows node. Raise FelixPanic."""
        tiers = self.graph.tiers_for(self.graph.keys_for(endpoint.uid))
        acls = self._builder.build(tiers, endpoint.namespace)
        return WindowsPolicy(acls, tuple(self._builder.left_out))

    def linux(self, endpoint: Endpoint) -> EndpointProgram:
        """Return the policy of an endpoint on a Linux node."""
        return program(self.graph.tiers_for(self.graph.keys_for(endpoint.uid)))

    def allowed_on_linux(self, endpoint: Endpoint, packets: Iterable[Packet]) -> list[bool]:
        """Return, for each packet, whether the endpoint's Linux policy allows it."""
        made = self.linux(endpoint)
        return [allowed_by_program(made, self.graph.members, packet) for packet in packets]


def allowed_on_windows(policy: WindowsPolicy, packets: Iterable[Packet]) -> list[bool]:
    """Return, for each packet, whether a list allows it."""
    return allowed_by_list(policy.acls, packets)


def describe(obj: Mapping[str, Any]) -> str:
    """Return ``Kind namespace/name`` of an object."""
    meta = obj.get("metadata") or {}
    place = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{obj.get('kind', 'object without kind')} {place}{meta.get('name', '')}"
