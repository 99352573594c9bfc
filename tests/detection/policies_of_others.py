# SPDX-License-Identifier: Apache-2.0
"""Policies of other owners in a running lab, as shared clusters have them; each is deleted
afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.detection.lab_api import Api, on_each

V3 = "/apis/projectcalico.org/v3"
MEMBERS = {"action": "Allow", "source": {"services": {"name": "friends", "namespace": "default"}}}
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
OF_RUNS = "kubernetes.io/metadata.name contains 'calico-demo'"
"""Selects the namespaces of every run."""


@contextmanager
def policies_of_others(api: Api, tier: str, **specs: dict[str, Any]) -> Iterator[None]:
    """Create GlobalNetworkPolicies of another owner, by name, in a tier that passes the remaining
    traffic on; an empty ``tier`` means the default tier."""
    policies, tiers = f"{V3}/globalnetworkpolicies", f"{V3}/tiers"
    if tier:
        spec: dict[str, Any] = {"order": 5, "defaultAction": "Pass"}
        api(
            "POST",
            tiers,
            {
                "apiVersion": "projectcalico.org/v3",
                "kind": "Tier",
                "metadata": {"name": tier},
                "spec": spec,
            },
        )
    names = [f"{tier}.{name}" if tier else name for name in specs]
    for name, spec in zip(names, specs.values(), strict=True):
        body = {
            "apiVersion": "projectcalico.org/v3",
            "kind": "GlobalNetworkPolicy",
            "metadata": {"name": name},
        }
        api("POST", policies, body | {"spec": spec | ({"tier": tier} if tier else {})})
    yield
    for name in names:
        api("DELETE", f"{policies}/{name}")
    if tier:
        api("DELETE", f"{tiers}/{tier}")


def foreign_policy_denies_ingress(api: Api) -> contextlib.AbstractContextManager[None]:
    """A GlobalNetworkPolicy of another owner denies ingress to every pod of the suite."""
    deny = {
        "namespaceSelector": OF_RUNS,
        "types": ["Ingress"],
        "order": 1,
        "ingress": [{"action": "Deny"}],
    }
    return policies_of_others(api, "", **{"company-wide": deny})


@contextmanager
def foreign_policy_may_deny_ingress(
    api: Api, tier: str = "", name: str = "company-wide"
) -> Iterator[None]:
    """A GlobalNetworkPolicy of another owner denies ingress, except from the members of a Service
    whose members are only given by names."""
    spec = {"namespaceSelector": OF_RUNS, "types": ["Ingress"], "order": 1, "ingress": [MEMBERS]}
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "FQDN",
        "metadata": {"name": "friends-1", "labels": {"kubernetes.io/service-name": "friends"}},
        "endpoints": [{"addresses": ["friends.example.org"]}], "ports": [],
    }  # fmt: skip
    api("POST", SLICES, slice_)
    with policies_of_others(api, tier, **{name: spec}):
        yield
    api("DELETE", f"{SLICES}/friends-1")


@contextmanager
def foreign_policy_denies_private_networks(api: Api) -> Iterator[None]:
    """A GlobalNetworkPolicy of another owner denies egress to a set of networks that contains pods'
    addresses."""
    sets, name = f"{V3}/globalnetworksets", "private"
    body = {"apiVersion": "projectcalico.org/v3", "kind": "GlobalNetworkSet"}
    meta, nets = (
        {"name": name, "labels": {"networks": name}},
        ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"],
    )
    api("POST", sets, {**body, "metadata": meta, "spec": {"nets": nets}})
    deny = {"action": "Deny", "destination": {"selector": f"networks == '{name}'"}}
    spec = {
        "namespaceSelector": OF_RUNS,
        "types": ["Egress"],
        "order": 1,
        "egress": [deny, {"action": "Allow"}],
    }
    with policies_of_others(api, "", **{"not-to-private-networks": spec}):
        yield
    api("DELETE", f"{sets}/{name}")


@contextmanager
def dns_is_for_friends_alone(api: Api) -> Iterator[None]:
    """A NetworkPolicy of the cluster's owner allows only namespaces with a certain label to query
    the cluster's DNS."""
    path, name = (
        "/apis/networking.k8s.io/v1/namespaces/kube-system/networkpolicies",
        "dns-for-friends",
    )
    friends = {"namespaceSelector": {"matchLabels": {"dns.example/allowed": "yes"}}}
    spec = {
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        "ingress": [{"from": [friends]}],
    }
    body = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }
    api("POST", path, body)
    yield
    api("DELETE", f"{path}/{name}")


def foreign_policy_may_allow_ingress(api: Api) -> contextlib.AbstractContextManager[None]:
    """A GlobalNetworkPolicy of an earlier tier allows ingress from the members of a Service whose
    members are only given by names."""
    return foreign_policy_may_deny_ingress(api, "platform", "friendly")


def foreign_tier_allows(api: Api) -> contextlib.AbstractContextManager[None]:
    """A GlobalNetworkPolicy of another owner in an earlier tier allows everything."""
    allow = {"namespaceSelector": OF_RUNS, "types": ["Ingress", "Egress"], "order": 1}
    return policies_of_others(
        api,
        "platform",
        friendly=allow | {"ingress": [{"action": "Allow"}], "egress": [{"action": "Allow"}]},
    )


@contextmanager
def default_deny_in_new_namespaces(api: Api) -> Iterator[None]:
    """Each new namespace at once gets a NetworkPolicy that denies all ingress, as Kyverno or
    Capsule create it."""
    spec = {"podSelector": {}, "policyTypes": ["Ingress"]}

    def deny(namespace: Any) -> None:
        name = namespace["metadata"]["name"]
        if name.startswith("calico-demo"):
            meta = {"name": "generated-default-deny"}
            body = {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": meta,
                "spec": spec,
            }
            api("POST", f"/apis/networking.k8s.io/v1/namespaces/{name}/networkpolicies", body)

    with on_each(api, "/api/v1/namespaces", deny):
        yield


@contextmanager
def harmless_policies_of_others(api: Api) -> Iterator[None]:
    """An earlier tier allows DNS to all and logs it, and an egress policy for everybody allows
    everything."""
    dns = {"action": "Allow", "protocol": "UDP", "destination": {"ports": [53]}}
    log = {"selector": "all()", "types": ["Ingress"], "order": 2, "ingress": [{"action": "Log"}]}
    out = {"selector": "all()", "types": ["Egress"], "order": 9000, "egress": [{"action": "Allow"}]}
    early = {
        "dns": {"selector": "all()", "types": ["Egress"], "order": 1, "egress": [dns]},
        "log": log,
    }
    with (
        policies_of_others(api, "platform", **early),
        policies_of_others(api, "", **{"go-anywhere": out}),
    ):
        yield


@contextmanager
def foreign_policy_denies_beside_harmless_ones(api: Api) -> Iterator[None]:
    """A policy denies ingress to every pod of the suite, while other policies exist that explain
    nothing."""
    with harmless_policies_of_others(api), foreign_policy_denies_ingress(api):
        yield


ALL_BUT_METADATA = {"action": "Allow", "destination": {"notNets": ["169.254.169.254/32"]}}


def foreign_policy_by_not_nets(api: Api) -> contextlib.AbstractContextManager[None]:
    """A policy of another owner allows all egress except to the metadata service of clouds."""
    spec = {"namespaceSelector": OF_RUNS, "types": ["Egress"], "egress": [ALL_BUT_METADATA]}
    return policies_of_others(api, "", **{"block-metadata-service": spec})


def foreign_policy_that_passes(api: Api) -> contextlib.AbstractContextManager[None]:
    """The only rule of another owner's policy in the default tier passes everything on."""
    spec = {"namespaceSelector": OF_RUNS, "types": ["Ingress"], "ingress": [{"action": "Pass"}]}
    return policies_of_others(api, "", **{"pass-on": spec})


@contextmanager
def foreign_staged_policy(api: Api) -> Iterator[None]:
    """Another owner tries a default deny as a staged policy first."""
    path, name = f"{V3}/stagedglobalnetworkpolicies", "default-deny"
    body = {"apiVersion": "projectcalico.org/v3", "kind": "StagedGlobalNetworkPolicy"}
    spec = {"namespaceSelector": OF_RUNS, "types": ["Ingress", "Egress"], "order": 2000}
    api("POST", path, {**body, "metadata": {"name": name}, "spec": spec})
    yield
    api("DELETE", f"{path}/{name}")


def foreign_policy_by_accounts(api: Api) -> contextlib.AbstractContextManager[None]:
    """A policy of another owner allows ingress everywhere from all accounts that are not of the
    payments team."""
    allow = {"action": "Allow", "source": {"serviceAccounts": {"selector": 'PCI != "true"'}}}
    spec = {"namespaceSelector": OF_RUNS, "types": ["Ingress"], "ingress": [allow]}
    return policies_of_others(api, "", **{"pci-allow-list": spec})


EDITS: dict[str, Callable[..., contextlib.AbstractContextManager[None]]] = {
    item.__name__: item
    for item in (
        foreign_policy_denies_ingress,
        foreign_policy_may_deny_ingress,
        foreign_policy_denies_private_networks,
        dns_is_for_friends_alone,
        foreign_tier_allows,
        harmless_policies_of_others,
        foreign_policy_denies_beside_harmless_ones,
        default_deny_in_new_namespaces,
        foreign_policy_by_not_nets,
        foreign_policy_that_passes,
        foreign_staged_policy,
        foreign_policy_by_accounts,
    )
}
