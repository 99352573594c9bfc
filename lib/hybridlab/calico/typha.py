"""Follows the API once for all Felixes, as Typha does, and keeps the calculation graph and the routing facts.

What cannot be read is logged and left out, as Felix leaves out what fails its validation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hybridlab.api.contract import Client, Obj
from hybridlab.api.informer import Informer
from hybridlab.calico.conversion import block_facts, network_set, pod_facts, pool_facts, slice_members, tier_facts
from hybridlab.calico.kubernetes_policy import from_kubernetes
from hybridlab.calico.policy import Policy, PolicyKey, from_calico
from hybridlab.calico.resolve import Graph
from hybridlab.calico.resources import CalicoResources
from hybridlab.calico.routes import RoutingFacts, vtep

Log = Callable[[str], None]
KUBERNETES_POLICIES = "networkpolicies.networking.k8s.io"


class Typha:
    """One cluster's datastore view."""

    def __init__(self, client: Client, resources: CalicoResources, log: Log) -> None:
        self._client, self._resources, self._log = client, resources, log
        self.graph = Graph()
        self.routing = RoutingFacts()
        self.felix_configurations: dict[str, Obj] = {}
        """Name to spec."""
        self._routing_listeners: list[Callable[[], None]] = []
        self._configuration_listeners: list[Callable[[], None]] = []
        self._informers: list[Informer] = []
        self._policies: dict[str, PolicyKey] = {}

    async def start(self) -> None:
        """Follow everything; returns when the first lists have been taken in."""
        follow = self._follow
        follow("namespaces", self._namespace, self._no_namespace)
        follow("serviceaccounts", self._account, self._no_account)
        follow("pods", self._pod, self._no_pod)
        follow("nodes", self._node, self._no_node)
        follow("endpointslices.discovery.k8s.io", self._slice, self._no_slice)
        follow(KUBERNETES_POLICIES, lambda obj: self._policy(obj, from_kubernetes), self._no_policy)
        for plural in ("networkpolicies", "globalnetworkpolicies"):
            self._follow_calico(plural, lambda obj: self._policy(obj, from_calico), self._no_policy)
        for plural in ("networksets", "globalnetworksets"):
            self._follow_calico(plural, self._network_set, self._no_network_set)
        self._follow_calico("tiers", self._tier, self._no_tier)
        self._follow_calico("ippools", self._pool, self._no_pool)
        self._follow_calico("felixconfigurations", self._felix_configuration, self._no_felix_configuration)
        self._follow_calico("ipamblocks", self._block, self._no_block)
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
        """Call ``listener`` whenever a FelixConfiguration came, changed or went."""
        self._configuration_listeners.append(listener)

    def _follow(self, resource: str, put: Callable[[Obj], None], drop: Callable[[Obj], None]) -> None:
        def take(obj: Obj) -> None:
            try:
                put(obj)
            except (ValueError, KeyError, TypeError) as error:
                meta = obj["metadata"]
                where = "/".join(filter(None, (meta.get("namespace"), meta["name"])))
                self._log(f"{obj['kind']} {where} is not applied: {error}")
                drop(obj)

        informer = Informer(self._client, resource)
        informer.on(take, lambda old, new: take(new), drop)
        self._informers.append(informer)

    def _follow_calico(self, plural: str, put: Callable[[Obj], None], drop: Callable[[Obj], None]) -> None:
        if self._resources.served(plural):
            self._follow(self._resources.name(plural), put, drop)

    # -- what policy depends on

    def _namespace(self, obj: Obj) -> None:
        labels = obj["metadata"].get("labels") or {}
        name = obj["metadata"]["name"]
        self.graph.set_namespace(name, {**labels, "projectcalico.org/name": name})

    def _no_namespace(self, obj: Obj) -> None:
        self.graph.set_namespace(obj["metadata"]["name"], None)

    def _account(self, obj: Obj) -> None:
        meta = obj["metadata"]
        labels = {**(meta.get("labels") or {}), "projectcalico.org/name": meta["name"]}
        self.graph.set_service_account(meta["namespace"], meta["name"], labels)

    def _no_account(self, obj: Obj) -> None:
        self.graph.set_service_account(obj["metadata"]["namespace"], obj["metadata"]["name"], None)

    def _pod(self, obj: Obj) -> None:
        facts = pod_facts(obj)
        if facts is None:
            self._no_pod(obj)
        else:
            self.graph.set_pod(facts)

    def _no_pod(self, obj: Obj) -> None:
        self.graph.remove_pod(obj["metadata"]["uid"])

    def _policy(self, obj: Obj, convert: Callable[[Obj], Policy]) -> None:
        policy = convert(obj)
        self._policies[obj["metadata"]["uid"]] = policy.key
        self.graph.set_policy(policy)

    def _no_policy(self, obj: Obj) -> None:
        key = self._policies.pop(obj["metadata"]["uid"], None)
        if key is not None:
            self.graph.remove_policy(key)

    def _network_set(self, obj: Obj) -> None:
        self.graph.set_network_set(_identity(obj), network_set(obj))

    def _no_network_set(self, obj: Obj) -> None:
        self.graph.set_network_set(_identity(obj), None)

    def _tier(self, obj: Obj) -> None:
        self.graph.set_tier(obj["metadata"]["name"], tier_facts(obj))

    def _no_tier(self, obj: Obj) -> None:
        self.graph.set_tier(obj["metadata"]["name"], None)

    def _slice(self, obj: Obj) -> None:
        self._set_slice(obj, *slice_members(obj))

    def _no_slice(self, obj: Obj) -> None:
        self._set_slice(obj, (), ())

    def _set_slice(self, obj: Obj, addresses: tuple[str, ...], endpoints: tuple[str, ...]) -> None:
        meta = obj["metadata"]
        service = (meta.get("labels") or {}).get("kubernetes.io/service-name")
        if service:
            identity = f"slice/{meta['namespace']}/{meta['name']}"
            self.graph.set_slice((meta["namespace"], service), identity, addresses, endpoints)

    # -- what routing depends on

    def _node(self, obj: Obj) -> None:
        name = obj["metadata"]["name"]
        self._set_vtep(name, obj["metadata"].get("annotations") or {})

    def _no_node(self, obj: Obj) -> None:
        self._set_vtep(obj["metadata"]["name"], {})

    def _set_vtep(self, name: str, annotations: dict[str, str]) -> None:
        found = vtep(name, annotations)
        if found == self.routing.vteps.get(name):
            return
        if found is None:
            del self.routing.vteps[name]
        else:
            self.routing.vteps[name] = found
        self._routing_due()

    def _block(self, obj: Obj) -> None:
        facts = block_facts(obj)
        if facts is None:
            self._no_block(obj)
        elif self.routing.blocks.get(facts.cidr) != facts:
            self.routing.blocks[facts.cidr] = facts
            self._routing_due()

    def _no_block(self, obj: Obj) -> None:
        if self.routing.blocks.pop(obj["spec"].get("cidr", ""), None):
            self._routing_due()

    def _pool(self, obj: Obj) -> None:
        self.routing.pools[obj["metadata"]["name"]] = pool_facts(obj)
        self._routing_due()

    def _no_pool(self, obj: Obj) -> None:
        self.routing.pools.pop(obj["metadata"]["name"], None)
        self._routing_due()

    def _felix_configuration(self, obj: Obj) -> None:
        self.felix_configurations[obj["metadata"]["name"]] = obj.get("spec") or {}
        self._configuration_due()

    def _no_felix_configuration(self, obj: Obj) -> None:
        if self.felix_configurations.pop(obj["metadata"]["name"], None) is not None:
            self._configuration_due()

    def _configuration_due(self) -> None:
        for listener in self._configuration_listeners:
            listener()

    def _routing_due(self) -> None:
        for listener in self._routing_listeners:
            listener()


def _identity(obj: Obj) -> str:
    meta = obj["metadata"]
    return f"{obj['kind']}/{meta.get('namespace', '')}/{meta['name']}"
