# SPDX-License-Identifier: Apache-2.0
"""Follows the API once for all Felixes, as Typha does, and keeps the calculation graph and the
routing facts.

Objects that cannot be read are logged and left out, like objects that fail Felix' validation.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hybridlab.api.contract import Client, Obj
from hybridlab.api.informer import Informer
from hybridlab.calico.policy_definitions import GROUP, policy_kinds
from hybridlab.calico.resources import CalicoResources
from hybridlab.networks.contract.routing import (
    BlockFacts,
    NodeEnd,
    RoutingFacts,
    block_facts,
    pod_cidr_facts,
    pool_facts,
)
from hybridlab.policy.admin_policy import from_admin, from_cluster
from hybridlab.policy.kubernetes_policy import from_kubernetes
from hybridlab.policy.objects import (
    labels_and_name,
    network_set,
    pod_facts,
    slice_members,
    tier_facts,
)
from hybridlab.policy.policy import Policy, PolicyKey, from_calico
from hybridlab.policy.release import Release
from hybridlab.policy.resolve import Graph
from hybridlab.taps import Seam

Log = Callable[[str], None]
NodeEndOf = Callable[[str, Obj], NodeEnd | None]
KUBERNETES_POLICIES = "networkpolicies.networking.k8s.io"
CALICO_POLICIES = (
    "networkpolicies",
    "globalnetworkpolicies",
    "stagednetworkpolicies",
    "stagedglobalnetworkpolicies",
)
Fact = TypeVar("Fact")
Updates = Sequence[tuple[Obj, Any]]
"""Objects, each with the fact that is stored; None: the object is gone, or gives no fact."""


@dataclass(frozen=True)
class Followed(Generic[Fact]):
    """The conversion and storage of a resource's objects."""

    resource: str
    convert: Callable[[Obj], Fact | None]
    """Converts an object to the fact that is stored; None: the object gives no fact (any more).
    Raises ValueError, KeyError or TypeError."""
    put: Callable[[Obj, Fact], None]
    drop: Callable[[Obj], None]
    """Called when the object is gone, or gives no fact."""


class Typha:
    """The view of the API that all Felixes of a cluster share."""

    def __init__(
        self,
        client: Client,
        resources: CalicoResources,
        release: Release,
        node_end: NodeEndOf,
        log: Log,
        *,
        pod_cidrs: Collection[str] = (),
    ) -> None:
        """Set up Typha. ``node_end``: returns a node's announcement of the route to its pods, from
        its name and metadata; ``pod_cidrs``: the nodes whose podCIDR is announced as their
        block."""
        self._client = client
        self._resources = resources
        self._log = log
        self._release = release
        self._node_end = node_end
        self._pod_cidrs = pod_cidrs
        self.graph = Graph(release)
        self.updates: Seam[Updates] = Seam()
        """A seam through which the update passes that results from an event; its taps also receive
        the resource."""
        self.routing = RoutingFacts()
        self.felix_configurations: dict[str, Obj] = {}
        """The spec of each FelixConfiguration, by name."""
        self._routing_listeners: list[Callable[[], None]] = []
        self._configuration_listeners: list[Callable[[], None]] = []
        self._informers: list[Informer] = []
        self._policies: dict[str, PolicyKey] = {}
        """The keys of policies by the uid of the object."""

    async def start(self) -> None:
        """Follow everything; return when the first lists have been read."""
        for followed in (*self._policy_table(), *self._routing_table()):
            self._follow(followed)
        for informer in self._informers:
            await informer.start()
        await asyncio.gather(*(informer.wait_synced() for informer in self._informers))

    async def stop(self) -> None:
        """Stop following; an error that ended a watch is raised here."""
        await asyncio.gather(*(informer.stop() for informer in self._informers))

    def on_routing(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever routes may have to change."""
        self._routing_listeners.append(listener)

    def on_felix_configuration(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever a FelixConfiguration is added, changed or deleted."""
        self._configuration_listeners.append(listener)

    def _follow(self, followed: Followed[Fact]) -> None:
        def take(obj: Obj) -> None:
            try:
                self._update(followed, obj, followed.convert(obj))
            except (ValueError, KeyError, TypeError) as error:
                where = "/".join(filter(None, (_namespace(obj), _name(obj))))
                self._log(f"{obj['kind']} {where} is not applied: {error}")
                followed.drop(obj)

        informer = Informer(self._client, followed.resource)
        informer.on(
            take, lambda old, new: take(new), lambda last: self._update(followed, last, None)
        )
        self._informers.append(informer)

    def _update(self, followed: Followed[Any], obj: Obj, fact: object) -> None:
        """Pass an object's fact through the taps and keep the result; None: the object gives no
        fact.
        """
        for changed, now in self.updates([(obj, fact)], followed.resource):
            if now is None:
                followed.drop(changed)
            else:
                followed.put(changed, now)

    def _served(self, *plurals: str) -> Iterator[str]:
        """Yield Calico's resources, except those that this API does not serve."""
        return (
            self._resources.name(plural) for plural in plurals if self._resources.served(plural)
        )

    def _policy_table(self) -> Iterator[Followed[Any]]:
        graph = self.graph
        yield Followed(
            "namespaces",
            labels_and_name,
            lambda obj, labels: graph.set_namespace(_name(obj), labels),
            lambda obj: graph.set_namespace(_name(obj), None),
        )
        yield Followed(
            "serviceaccounts",
            labels_and_name,
            lambda obj, labels: graph.set_service_account(_namespace(obj), _name(obj), labels),
            lambda obj: graph.set_service_account(_namespace(obj), _name(obj), None),
        )
        yield Followed(
            "pods",
            pod_facts,
            lambda obj, pod: graph.set_pod(pod),
            lambda obj: graph.remove_pod(_uid(obj)),
        )
        yield Followed(
            "endpointslices.discovery.k8s.io", slice_members, self._set_slice, self._empty_slice
        )
        yield Followed(KUBERNETES_POLICIES, from_kubernetes, self._set_policy, self._remove_policy)
        yield from (
            Followed(resource, from_calico, self._set_policy, self._remove_policy)
            for resource in self._served(*CALICO_POLICIES)
        )
        for _, kind, plural, _ in policy_kinds(self._release):
            convert = from_cluster if kind == "ClusterNetworkPolicy" else from_admin
            yield Followed(f"{plural}.{GROUP}", convert, self._set_policy, self._remove_policy)
        yield from (
            Followed(resource, from_kubernetes, self._set_policy, self._remove_policy)
            for resource in self._served("stagedkubernetesnetworkpolicies")
        )
        yield from (
            Followed(
                resource,
                network_set,
                lambda obj, found: graph.set_network_set(_identity(obj), found),
                lambda obj: graph.set_network_set(_identity(obj), None),
            )
            for resource in self._served("networksets", "globalnetworksets")
        )
        yield from (
            Followed(
                resource,
                tier_facts,
                lambda obj, tier: graph.set_tier(_name(obj), tier),
                lambda obj: graph.set_tier(_name(obj), None),
            )
            for resource in self._served("tiers")
        )

    def _routing_table(self) -> Iterator[Followed[Any]]:
        """Yield the resources on which routes, and Felix itself, depend."""
        facts = self.routing
        yield self._kept(
            "nodes",
            lambda node: self._node_end(_name(node), node["metadata"]),
            facts.ends,
            _name,
            self.routing_due,
        )
        yield from (
            self._kept(resource, pool_facts, facts.pools, _name, self.routing_due)
            for resource in self._served("ippools")
        )
        yield from (
            self._kept(resource, _spec, self.felix_configurations, _name, self._configuration_due)
            for resource in self._served("felixconfigurations")
        )
        yield from (
            self._kept(resource, _spec, facts.peering, _name, self.routing_due)
            for resource in self._served("bgpconfigurations")
        )
        yield from (
            self._kept(resource, _spec, facts.peers, _name, self.routing_due)
            for resource in self._served("bgppeers")
        )
        if self._pod_cidrs:
            yield self._kept("nodes", self._pod_cidr, facts.blocks, _name, self.routing_due)
        yield from (
            self._kept(
                resource,
                block_facts,
                facts.blocks,
                lambda obj: str(obj["spec"].get("cidr", "")),
                self.routing_due,
            )
            for resource in self._served("ipamblocks")
        )

    def _pod_cidr(self, node: Obj) -> BlockFacts | None:
        return pod_cidr_facts(node) if _name(node) in self._pod_cidrs else None

    def _kept(
        self,
        resource: str,
        convert: Callable[[Obj], Fact | None],
        kept: MutableMapping[str, Fact],
        key: Callable[[Obj], str],
        changed: Callable[[], None],
    ) -> Followed[Fact]:
        """Store facts by a key; call ``changed`` when a fact differs from before."""

        def put(obj: Obj, fact: Fact) -> None:
            if kept.get(key(obj)) != fact:
                kept[key(obj)] = fact
                changed()

        def drop(obj: Obj) -> None:
            if kept.pop(key(obj), None) is not None:
                changed()

        return Followed(resource, convert, put, drop)

    def _set_policy(self, obj: Obj, policy: Policy) -> None:
        self._policies[_uid(obj)] = policy.key
        self.graph.set_policy(policy)

    def _remove_policy(self, obj: Obj) -> None:
        key = self._policies.pop(_uid(obj), None)
        if key is not None:
            self.graph.remove_policy(key)

    def _set_slice(self, obj: Obj, members: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
        service = (obj["metadata"].get("labels") or {}).get("kubernetes.io/service-name")
        if service:
            identity = f"slice/{_namespace(obj)}/{_name(obj)}"
            self.graph.set_slice((_namespace(obj), service), identity, *members)

    def _empty_slice(self, obj: Obj) -> None:
        self._set_slice(obj, ((), ()))

    def _configuration_due(self) -> None:
        for listener in self._configuration_listeners:
            listener()

    def routing_due(self) -> None:
        """Notify the listeners that routes may have to change."""
        for listener in self._routing_listeners:
            listener()


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _namespace(obj: Obj) -> str:
    return str(obj["metadata"].get("namespace", ""))


def _uid(obj: Obj) -> str:
    return str(obj["metadata"]["uid"])


def _spec(obj: Obj) -> Obj:
    return obj.get("spec") or {}


def _identity(obj: Obj) -> str:
    return f"{obj['kind']}/{_namespace(obj)}/{_name(obj)}"
