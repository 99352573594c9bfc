# SPDX-License-Identifier: Apache-2.0
"""The policies of each endpoint, and the members of each IP set: recomputed only if a change
affects them.

This is Felix's calculation graph. A single graph serves all nodes, since Typha would send the same
data to all nodes. A node's Felix subscribes: the graph then reports which of the node's endpoints,
and which sets, Felix must program again. Endpoints are indexed by namespace and node. Policies and
sets are indexed by their namespace if they apply to only one namespace.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from hybridlab.policy.ipsets import Endpoint, IPSet, NetworkSet, SelectorSet, ServiceSet, SetKey
from hybridlab.policy.policy import (
    DEFAULT_TIER,
    NAMESPACE_PREFIX,
    SERVICE_ACCOUNT_LABEL,
    SERVICE_ACCOUNT_PREFIX,
    Policy,
    PolicyKey,
)
from hybridlab.policy.release import Release
from hybridlab.policy.render import TierPolicies, set_keys
from hybridlab.policy.selectors import NAMESPACE_LABEL

Labels = Mapping[str, str]


class Subscriber(Protocol):
    """A node's Felix."""

    def endpoint_due(self, uid: str) -> None:
        """Record that an endpoint of the node was added or removed, or that its policies or their
        order changed."""

    def rules_due(self, uid: str, key: PolicyKey) -> None:
        """Record that only the rules of a policy that applies to one of the node's endpoints have
        changed."""

    def relabelled(self, uid: str) -> None:
        """Record that an endpoint of the node has other labels than before."""

    def set_due(self, name: str) -> None:
        """Record that the members of a set have changed."""


@dataclass(frozen=True, kw_only=True)
class PodFacts:
    """The graph's facts about a pod."""

    uid: str
    namespace: str
    name: str
    node: str
    address: str | None
    labels: Labels
    service_account: str
    ports: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class TierFacts:
    """A tier."""

    name: str
    order: float = math.inf
    end: Literal["deny", "pass"] = "deny"


class Graph:
    """The calculation graph."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._pods: dict[str, PodFacts] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._by_namespace: dict[str, dict[str, None]] = {}
        self._by_node: dict[str, dict[str, None]] = {}
        self._namespaces: dict[str, Labels] = {}
        self._accounts: dict[tuple[str, str], Labels] = {}
        self._network_sets: dict[str, NetworkSet] = {}
        self._slices: dict[tuple[str, str], dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {}
        self._tiers: dict[str, TierFacts] = {DEFAULT_TIER: TierFacts(name=DEFAULT_TIER)}
        self._policies: dict[PolicyKey, Policy] = {}
        self._sets_of: dict[PolicyKey, dict[str, SetKey]] = {}
        self._policies_in: dict[str | None, dict[PolicyKey, None]] = {}
        self._applying: dict[str, set[PolicyKey]] = {}
        self._sets: dict[str, IPSet] = {}
        self._sets_in: dict[str | None, dict[str, None]] = {}
        self._users: dict[str, set[PolicyKey]] = {}
        self._subscribers: dict[str, Subscriber] = {}
        self.version = 0
        """A number that increases when a policy or tier changes; programs that were rendered before
        are then out of date."""

    def subscribe(self, node: str, subscriber: Subscriber) -> None:
        """Report changes on ``node`` to ``subscriber`` from now on."""
        self._subscribers[node] = subscriber

    def unsubscribe(self, node: str) -> None:
        self._subscribers.pop(node, None)

    def endpoints_on(self, node: str) -> tuple[str, ...]:
        return tuple(self._by_node.get(node, ()))

    def is_on(self, uid: str, node: str) -> bool:
        return uid in self._by_node.get(node, ())

    def keys_for(self, uid: str) -> frozenset[PolicyKey]:
        return frozenset(self._applying.get(uid, ()))

    def tiers_for(self, keys: Iterable[PolicyKey]) -> tuple[TierPolicies, ...]:
        """Return the policies by tier, tiers and policies in order.

        A missing tier comes after all others, and its default action is deny.
        """
        by_tier: dict[str, list[Policy]] = {}
        for key in keys:
            policy = self._policies[key]
            if policy.at_workloads:
                by_tier.setdefault(policy.tier, []).append(policy)
        known = (self._tiers.get(name) for name in by_tier)
        tiers = sorted((tier for tier in known if tier), key=lambda tier: (tier.order, tier.name))
        tiers += [TierFacts(name=name) for name in sorted(by_tier.keys() - self._tiers.keys())]
        return tuple(
            TierPolicies(
                tier.name, tier.end, tuple(sorted(by_tier[tier.name], key=self._release.asked_at))
            )
            for tier in tiers
        )

    def pod(self, uid: str) -> PodFacts:
        return self._pods[uid]

    def policies_with(self, set_name: str) -> frozenset[PolicyKey]:
        return frozenset(self._users.get(set_name, ()))

    def sets_of(self, key: PolicyKey) -> frozenset[str]:
        """Return the sets that a policy's rules use; none if the policy is deleted."""
        return frozenset(self._sets_of.get(key, ()))

    @property
    def policies(self) -> Mapping[PolicyKey, Policy]:
        return self._policies

    def labels_of(self, uid: str) -> Labels:
        """Return an endpoint's full labels; only fault injection uses them."""
        return self._endpoints[uid].labels

    def has_set(self, name: str) -> bool:
        return name in self._sets

    def members(self, name: str) -> tuple[str, ...]:
        return self._sets[name].members()

    def set_pod(self, pod: PodFacts) -> None:
        """Add or update a pod with its own network."""
        old = self._pods.get(pod.uid)
        if old == pod:
            return
        if old and (old.node, old.namespace) != (pod.node, pod.namespace):
            self.remove_pod(pod.uid)
        self._pods[pod.uid] = pod
        self._by_namespace.setdefault(pod.namespace, {})[pod.uid] = None
        if pod.uid not in self._by_node.setdefault(pod.node, {}):
            self._by_node[pod.node][pod.uid] = None
            self._endpoint_due(pod.node, pod.uid)
        self._refresh(pod)

    def remove_pod(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        endpoint = self._endpoints.pop(uid)
        del self._by_namespace[pod.namespace][uid]
        del self._by_node[pod.node][uid]
        self._applying.pop(uid, None)
        for name in self._sets_about(endpoint.namespace):
            if self._sets[name].contribute(uid, ()):
                self._set_due(name)
        self._endpoint_due(pod.node, uid)

    def set_namespace(self, name: str, labels: Labels | None) -> None:
        if self._namespaces.get(name) == labels:
            return
        if labels is None:
            del self._namespaces[name]
        else:
            self._namespaces[name] = labels
        for uid in self._by_namespace.get(name, ()):
            self._refresh(self._pods[uid])
        for network_set in list(self._network_sets.values()):
            if network_set.namespace == name:
                self._spread(network_set, self._network_set_labels(network_set))

    def set_service_account(self, namespace: str, name: str, labels: Labels | None) -> None:
        if self._accounts.get((namespace, name), {}) == (labels or {}):
            return
        self._accounts[namespace, name] = labels or {}
        for uid in self._by_namespace.get(namespace, ()):
            if self._pods[uid].service_account == name:
                self._refresh(self._pods[uid])

    def set_tier(self, name: str, tier: TierFacts | None) -> None:
        """Add or update a tier; None: the tier is deleted, and its policies come last."""
        if tier is None:
            self._tiers.pop(name, None)
        elif self._tiers.get(name) == tier:
            return
        else:
            self._tiers[name] = tier
        self.version += 1
        self._policies_due(key for key, policy in self._policies.items() if policy.tier == name)

    def set_policy(self, policy: Policy) -> None:
        key = policy.key
        old = self._policies.get(key)
        if old == policy:
            return
        self.version += 1
        before = self._sets_of.get(key, {})
        needed = _sets_of(policy)
        self._sets_of[key] = needed
        for name, set_key in needed.items():
            self._users.setdefault(name, set()).add(key)
            if name not in self._sets:
                self._create_set(name, set_key)
        self._policies[key] = policy
        self._policies_in.setdefault(_confined_to(policy), {})[key] = None
        if old and _confined_to(old) != _confined_to(policy):
            del self._policies_in[_confined_to(old)][key]
        moved = old is not None and not policy.same_place(old)
        for uid, endpoint in self._endpoints_about(policy, old):
            self._apply_policy(uid, endpoint, policy, moved=moved, edited=old is not None)
        self._release_sets(key, before.keys() - needed.keys())

    def remove_policy(self, key: PolicyKey) -> None:
        old = self._policies.pop(key, None)
        if old is None:
            return
        self.version += 1
        del self._policies_in[_confined_to(old)][key]
        for uid, applying in self._applying.items():
            if key in applying:
                applying.discard(key)
                self._endpoint_due(self._pods[uid].node, uid)
        self._release_sets(key, self._sets_of.pop(key))

    def set_network_set(self, identity: str, network_set: NetworkSet | None) -> None:
        if network_set is None:
            self._network_sets.pop(identity, None)
            for name, ip_set in self._sets.items():
                if ip_set.contribute(identity, ()):
                    self._set_due(name)
            return
        network_set = NetworkSet(
            name=identity,
            namespace=network_set.namespace,
            labels=network_set.labels,
            nets=network_set.nets,
        )
        self._network_sets[identity] = network_set
        self._spread(network_set, self._network_set_labels(network_set))

    def set_slice(
        self,
        service: tuple[str, str],
        identity: str,
        addresses: tuple[str, ...],
        endpoints: tuple[str, ...],
    ) -> None:
        """Set the addresses of an endpoint slice, without and with ports; both empty: the slice
        is deleted.
        """
        self._slices.setdefault(service, {})[identity] = (addresses, endpoints)
        for with_ports, members in ((False, addresses), (True, endpoints)):
            name = ServiceSet(*service, with_ports=with_ports).name
            if name in self._sets and self._sets[name].contribute(identity, members):
                self._set_due(name)

    def _refresh(self, pod: PodFacts) -> None:
        """Recompute an endpoint's labels and everything that depends on them."""
        old = self._endpoints.get(pod.uid)
        endpoint = Endpoint(
            uid=pod.uid,
            namespace=pod.namespace,
            name=pod.name,
            node=pod.node,
            address=pod.address,
            labels=self._labels(pod),
            ports=pod.ports,
        )
        if old == endpoint:
            return
        self._endpoints[pod.uid] = endpoint
        for name in self._sets_about(pod.namespace):
            ip_set = self._sets[name]
            if ip_set.contribute(pod.uid, ip_set.members_of(endpoint)):
                self._set_due(name)
        if old is None or old.labels != endpoint.labels:
            self._applying.setdefault(pod.uid, set())
            for confined in (pod.namespace, None):
                for key in self._policies_in.get(confined, ()):
                    self._apply_policy(pod.uid, endpoint, self._policies[key])
            if old is not None and pod.node in self._subscribers:
                self._subscribers[pod.node].relabelled(pod.uid)

    def _labels(self, pod: PodFacts) -> Labels:
        account = self._accounts.get((pod.namespace, pod.service_account), {})
        return {
            **{
                f"{NAMESPACE_PREFIX}{label}": value
                for label, value in self._namespaces.get(pod.namespace, {}).items()
            },
            **{f"{SERVICE_ACCOUNT_PREFIX}{label}": value for label, value in account.items()},
            **pod.labels,
            NAMESPACE_LABEL: pod.namespace,
            "projectcalico.org/orchestrator": "k8s",
            SERVICE_ACCOUNT_LABEL: pod.service_account,
        }

    def _network_set_labels(self, network_set: NetworkSet) -> Labels:
        if not network_set.namespace:
            return network_set.labels
        inherited = self._namespaces.get(network_set.namespace, {})
        return {
            **{f"{NAMESPACE_PREFIX}{label}": value for label, value in inherited.items()},
            **network_set.labels,
            NAMESPACE_LABEL: network_set.namespace,
        }

    def _spread(self, network_set: NetworkSet, labels: Labels) -> None:
        """Add a network set's networks to every IP set that selects it."""
        full = NetworkSet(
            name=network_set.name,
            namespace=network_set.namespace,
            labels=labels,
            nets=network_set.nets,
        )
        for name, ip_set in self._sets.items():
            if ip_set.contribute(network_set.name, ip_set.members_of_network_set(full)):
                self._set_due(name)

    def _apply_policy(
        self,
        uid: str,
        endpoint: Endpoint,
        policy: Policy,
        *,
        moved: bool = False,
        edited: bool = False,
    ) -> None:
        applying = self._applying[uid]
        was = policy.key in applying
        now = policy.selector.matches(endpoint.labels)
        if now:
            applying.add(policy.key)
        else:
            applying.discard(policy.key)
        if was != now or (now and moved):
            self._endpoint_due(endpoint.node, uid)
        elif now and edited and endpoint.node in self._subscribers:
            self._subscribers[endpoint.node].rules_due(uid, policy.key)

    def _endpoints_about(self, *policies: Policy | None) -> list[tuple[str, Endpoint]]:
        """Return the endpoints that at least one of these policies can select."""
        confined = {_confined_to(policy) for policy in policies if policy}
        if None in confined:
            return list(self._endpoints.items())
        return [
            (uid, self._endpoints[uid])
            for name in confined
            for uid in self._by_namespace.get(name or "", ())
        ]

    def _policies_due(self, keys: Iterable[PolicyKey]) -> None:
        wanted = set(keys)
        for uid, applying in self._applying.items():
            if wanted & applying:
                self._endpoint_due(self._pods[uid].node, uid)

    def _create_set(self, name: str, key: SetKey) -> None:
        narrow = isinstance(key, SelectorSet) and self._release.leaves_out_covered_members
        ip_set = self._sets[name] = IPSet(key, without_covered=narrow)
        self._sets_in.setdefault(ip_set.namespace, {})[name] = None
        if isinstance(key, ServiceSet):
            for identity, (addresses, endpoints) in self._slices.get(
                (key.namespace, key.service), {}
            ).items():
                ip_set.contribute(identity, endpoints if key.with_ports else addresses)
            return
        candidates = (
            self._endpoints
            if ip_set.namespace is None
            else self._by_namespace.get(ip_set.namespace, {})
        )
        for uid in candidates:
            ip_set.contribute(uid, ip_set.members_of(self._endpoints[uid]))
        for network_set in self._network_sets.values():
            full = NetworkSet(
                name=network_set.name,
                namespace=network_set.namespace,
                labels=self._network_set_labels(network_set),
                nets=network_set.nets,
            )
            ip_set.contribute(network_set.name, ip_set.members_of_network_set(full))

    def _release_sets(self, key: PolicyKey, names: Iterable[str]) -> None:
        for name in names:
            self._users[name].discard(key)
            if not self._users[name]:
                del self._users[name]
                ip_set = self._sets.pop(name)
                del self._sets_in[ip_set.namespace][name]

    def _sets_about(self, namespace: str) -> list[str]:
        return [*self._sets_in.get(namespace, ()), *self._sets_in.get(None, ())]

    def _endpoint_due(self, node: str, uid: str) -> None:
        if node in self._subscribers:
            self._subscribers[node].endpoint_due(uid)

    def _set_due(self, name: str) -> None:
        for subscriber in self._subscribers.values():
            subscriber.set_due(name)


def _confined_to(policy: Policy) -> str | None:
    """Return the only namespace with endpoints that a policy can select; None: any."""
    return dict(policy.selector.required()).get(NAMESPACE_LABEL)


def _sets_of(policy: Policy) -> dict[str, SetKey]:
    keys = (
        key for rules in (policy.ingress, policy.egress) for rule in rules for key in set_keys(rule)
    )
    return {key.name: key for key in keys}
