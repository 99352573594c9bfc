# SPDX-License-Identifier: Apache-2.0
"""Policy from objects alone, without a cluster: the policy of each pod, and the verdict on packets.

This uses the same graph and renderers as a lab's Felixes, fed from manifests.
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
"""Kinds that policy at pods does not depend on."""


class UnknownKind(ValueError):
    """A kind that this release of Calico does not read."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"unknown kind {kind}")


@dataclass(frozen=True)
class Endpoint:
    """A pod that policy is about."""

    uid: str
    namespace: str
    name: str
    node: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class WindowsPolicy:
    """What a pod on a Windows node gets."""

    acls: tuple[Acl, ...]
    left_out: tuple[LeftOut, ...]


@dataclass
class Objects:
    """Everything that policy depends on, taken in object by object."""

    release: Release
    hosts: tuple[str, ...] = ()
    """The Windows node's own addresses, ``a.b.c.d/32``."""
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    """By ``namespace/name``."""
    unread: list[str] = field(default_factory=list)
    """What was left out, with the reason."""

    def __post_init__(self) -> None:
        self.graph = Graph(self.release)
        self._builder = AclListBuilder(self.release, self.graph.members, self.hosts)

    def take(self, objects: Iterable[Obj]) -> None:
        """Take objects in, in their order; those that cannot be used are left out."""
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
        """What an endpoint gets on a Windows node.  Raises FelixPanic."""
        tiers = self.graph.tiers_for(self.graph.keys_for(endpoint.uid))
        acls = self._builder.build(tiers, endpoint.namespace)
        return WindowsPolicy(acls, tuple(self._builder.left_out))

    def linux(self, endpoint: Endpoint) -> EndpointProgram:
        """What it gets on a Linux node."""
        return program(self.graph.tiers_for(self.graph.keys_for(endpoint.uid)))

    def allowed_on_linux(self, endpoint: Endpoint, packets: Iterable[Packet]) -> list[bool]:
        """Which packets the endpoint's Linux policy lets through."""
        made = self.linux(endpoint)
        return [allowed_by_program(made, self.graph.members, packet) for packet in packets]


def allowed_on_windows(policy: WindowsPolicy, packets: Iterable[Packet]) -> list[bool]:
    """Which packets a list lets through."""
    return allowed_by_list(policy.acls, packets)


def describe(obj: Mapping[str, Any]) -> str:
    """``Kind namespace/name`` of an object."""
    meta = obj.get("metadata") or {}
    place = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{obj.get('kind', 'object without kind')} {place}{meta.get('name', '')}"
