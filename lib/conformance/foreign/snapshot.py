# SPDX-License-Identifier: Apache-2.0
"""The policies of a cluster at one moment, with the objects that determine their meaning: tiers,
network sets, host endpoints."""

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from conformance.errors import SuiteError, UsageProblem
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import list_at, mapping_at
from conformance.kube.ownership import WORKER_LABEL, Ownership, labels_of
from conformance.kube.refused import ApiRefused
from conformance.policy import labels
from conformance.policy.foreign import ForeignPolicy
from conformance.policy.oracle import fields
from conformance.policy.oracle.admin import ADMIN as ADMIN_KINDS
from conformance.policy.oracle.policies import DEFAULT_TIER, LAST, TIER, Tier
from conformance.policy.oracle.rules import ANY_ADDRESS
from conformance.policy.oracle.world import SERVICE_LABEL, NetworkSet, World

KUBERNETES = "networking.k8s.io/v1"
CALICO = ("projectcalico.org/v3", "crd.projectcalico.org/v1")
"""The APIs of Calico. The first of them that is served is read."""
DISCOVERY = "discovery.k8s.io/v1"
ADMIN = ("policy.networking.k8s.io/v1alpha2", "policy.networking.k8s.io/v1alpha1")
DECIDING = ("NetworkPolicy", "GlobalNetworkPolicy", *ADMIN_KINDS)
"""Kinds of policies that decide about traffic."""
SETS = ("GlobalNetworkSet", "NetworkSet")
BY_LABELS = {"selector", "notSelector", "namespaceSelector"}
"""Fields of a rule's source or destination that select by labels."""
BASELINES = ("baselineadminnetworkpolicy", "Baseline")
"""Tiers of administrators' policies that come after ``default``."""
TWINS = ("knp.", "kanp.", "kbanp.", "kcnp.")
"""Beginnings of the names under which Calico's API serves policies of Kubernetes' APIs a second
time."""
ADMIN_TIERS = {
    "AdminNetworkPolicy": "adminnetworkpolicy",
    "BaselineAdminNetworkPolicy": "baselineadminnetworkpolicy",
}
"""Calico's names for the tiers of these kinds (v3.29 on); a ClusterNetworkPolicy names its own."""
FIRST = -1.0
"""The order that is assumed for a tier whose order is not known, since it may come before all
others.
"""
STAGED = ("StagedNetworkPolicy", "StagedGlobalNetworkPolicy", "StagedKubernetesNetworkPolicy")
"""Kinds of policies that decide nothing according to the documents, but decide on Windows in some
releases."""


@dataclass(frozen=True)
class Snapshot:
    """The policies of a cluster at one moment."""

    at: float
    """Time before the first list (``time.monotonic``)."""
    policies: tuple[tuple[ForeignPolicy, bool], ...]
    """Each policy, and whether it is the run's own."""
    unread: tuple[str, ...]
    """Kinds that could not be read, each with the missing right or another reason."""
    version: str = ""
    """The cluster's resourceVersion before the policies were read."""
    kinds: tuple[tuple[str, str], ...] = ()
    """API and kind of the served policies."""
    hosts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The labels of each node's HostEndpoint, through which policies apply to the node itself. Most
    clusters have no HostEndpoints."""

    @property
    def foreign(self) -> tuple[ForeignPolicy, ...]:
        """Return the policies of other owners."""
        return tuple(policy for policy, own in self.policies if not own)


def read(kube: Kube, at: float, is_own: Callable[[Obj], bool]) -> Snapshot:
    """Read every kind of policy that the cluster serves, including staged policies, since Windows
    enforces them."""
    calico = calico_api(kube)
    reader = _Reader(kube, calico)
    kinds = [
        (KUBERNETES, "NetworkPolicy"),
        *((calico, kind) for kind in ("NetworkPolicy", "GlobalNetworkPolicy") if calico),
        *staged_kinds(kube, calico),
        *admin_kinds(kube),
    ]
    policies = reader.policies(kinds, is_own)
    endpoints = reader.endpoints()
    policies += [
        (_of_host(calico, item), False) for item in endpoints if not spec_of(item).get("profiles")
    ]
    return Snapshot(
        at=at,
        policies=tuple(policies),
        unread=tuple(reader.unread),
        version=next(iter(reader.versions), ""),
        kinds=tuple(kinds),
        # a HostEndpoint without labels still counts
        hosts={str(spec_of(item).get("node")): labels_of(item) or {"": ""} for item in endpoints},
    )


def calico_api(kube: Kube) -> str:
    """Return the API at which Calico's policies are read; an empty string if none is served."""
    return next((api for api in CALICO if kube.discovery.serves(api, "GlobalNetworkPolicy")), "")


def staged_kinds(kube: Kube, calico: str) -> list[tuple[str, str]]:
    """Return API and kind of the staged policies that are served at Calico's API."""
    return [(calico, kind) for kind in STAGED if calico and kube.discovery.serves(calico, kind)]


def admin_kinds(kube: Kube) -> list[tuple[str, str]]:
    """Return API and kind of the administrators' policies that are served, newest API first."""
    return [
        (api, kind)
        for api in ADMIN
        for kind in (*ADMIN_TIERS, "ClusterNetworkPolicy")
        if kube.discovery.serves(api, kind)
    ]


def spec_of(obj: Obj) -> Obj:
    """Return the spec of an object; an empty mapping if it has none."""
    return obj.get("spec") or {}


def own_objects(run: Ownership, uids: Container[str] = ()) -> Callable[[Obj], bool]:
    """Return a function that recognises a run's own objects: objects of this worker by uid, objects
    of the run's other workers by labels."""

    def is_own(obj: Obj) -> bool:
        return str(obj["metadata"].get("uid") or "") in uids or (
            run.owns(obj) and labels_of(obj).get(WORKER_LABEL) != run.worker
        )

    return is_own


def is_twin(api: str, obj: Obj) -> bool:
    """Return whether an object of Calico's API is only another form of a policy of Kubernetes'
    APIs."""
    return api in CALICO and obj["metadata"]["name"].startswith(TWINS)


def policy_of(api: str, kind: str, obj: Obj, tiers: Mapping[str, Obj]) -> ForeignPolicy:
    """Return the policy that an object describes, in its tier."""
    meta = obj["metadata"]
    spec = spec_of(obj)
    tier = ADMIN_TIERS.get(kind) or str(spec.get("tier") or DEFAULT_TIER)
    tier_object = tiers.get(tier) or {"metadata": {}}
    versions = [item["metadata"].get("resourceVersion") for item in (obj, tier_object)]
    return ForeignPolicy(
        kind=kind,
        name=str(meta["name"]),
        namespace=str(meta.get("namespace") or ""),
        api=api,
        uid=str(meta.get("uid") or ""),
        version="/".join(filter(None, versions)),
        spec=spec,
        tier=_tier(tier, tiers),
    )


def _tier(name: str, tiers: Mapping[str, Obj]) -> Tier:
    """Return a tier; a tier that was not read is assumed to come before all others."""
    spec = spec_of(tiers.get(name) or {})
    unset = LAST if name in BASELINES or name in tiers else FIRST
    order = spec.get("order")
    end: Literal["Deny", "Pass"] = "Pass" if spec.get("defaultAction") == "Pass" else "Deny"
    return (
        TIER if name == DEFAULT_TIER else Tier(name, unset if order is None else float(order), end)
    )


def policy_in_event(kube: Kube, api: str, kind: str, obj: Obj) -> ForeignPolicy:
    """Return the policy in a watch's event, with its tier and the network sets of this moment."""
    reader = _Reader(kube, api if api in CALICO else "")
    return reader.completed(policy_of(api, kind, obj, reader.tiers()))


@dataclass
class _Reader:
    """Reads the objects that decide about paths on a cluster, and records the kinds that cannot be
    read."""

    kube: Kube
    calico: str
    """The API of Calico's policies; empty if no such API is served."""
    unread: list[str] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    """The cluster's resourceVersion at each list that was read."""

    def listed(self, api: str, kind: str) -> list[Obj]:
        """Return all objects of a kind; an empty list if they cannot be read."""
        try:
            objects, version = self.kube.objects_at(api, kind)
        except ApiRefused as refusal:
            right = (
                f"the run's user may not list {kind} ({api}): bind manifests/rbac/read-only.yaml"
            )
            self.unread.append(right if refusal.forbidden else f"{kind} ({api}): {refusal.message}")
        except SuiteError as error:
            self.unread.append(f"{kind} ({api}): {str(error).splitlines()[0]}")
        else:
            self.versions.append(version)
            return objects
        return []

    def tiers(self) -> dict[str, Obj]:
        """Return Calico's tiers by name."""
        tiers = self.listed(self.calico, "Tier") if self.calico else []
        return {tier["metadata"]["name"]: tier for tier in tiers}

    @cached_property
    def sets(self) -> list[Obj]:
        """Return Calico's network sets."""
        return [item for kind in SETS for item in self.listed(self.calico, kind)]

    def completed(self, policy: ForeignPolicy) -> ForeignPolicy:
        """Return a policy with the network sets that its rules may select, and the members of the
        Services that its rules name, if these can be read. Thus a change of these objects counts as
        a change of the policy."""
        if _chooses_by_labels(policy):
            policy = _with_sets(policy, self.sets)
        for service in _services(policy):
            with suppress(SuiteError):
                policy = _with_members(policy, service, self._slices(*service))
        return policy

    def _slices(self, namespace: str, service: str) -> list[Obj]:
        """Return the EndpointSlices of a Service. Raise SuiteError if they cannot be read."""
        of_service = f"{SERVICE_LABEL}={service}"
        return self.kube.objects(DISCOVERY, "EndpointSlice", namespace, labels=of_service)

    def policies(
        self, kinds: Sequence[tuple[str, str]], is_own: Callable[[Obj], bool]
    ) -> list[tuple[ForeignPolicy, bool]]:
        """Return the policies of these kinds, and for each policy whether it is the run's own."""
        tiers = self.tiers()
        policies = [
            (policy_of(api, kind, obj, tiers), is_own(obj))
            for api, kind in kinds
            for obj in self.listed(api, kind)
            if not is_twin(api, obj)
        ]
        if all(own or not (_chooses_by_labels(one) or _services(one)) for one, own in policies):
            return policies
        return [(self.completed(policy), own) for policy, own in policies]

    def endpoints(self) -> list[Obj]:
        """Return the HostEndpoints."""
        is_served = self.calico and self.kube.discovery.serves(self.calico, "HostEndpoint")
        return self.listed(self.calico, "HostEndpoint") if is_served else []


def _of_host(api: str, endpoint: Obj) -> ForeignPolicy:
    """Return a HostEndpoint without a profile in the form of a policy. This policy denies all
    traffic of the node that no other policy allows."""
    return replace(
        policy_of(api, "HostEndpoint", endpoint, {}),
        namespace=f"node {spec_of(endpoint).get('node')}",
        spec={"types": ["Ingress", "Egress"]},
    )


def _ends(policy: ForeignPolicy) -> list[Obj]:
    """Return the sources and destinations of a policy's rules, if the rules have Calico's
    fields."""
    rules = [*list_at(policy.spec, "ingress"), *list_at(policy.spec, "egress")]
    ends = [mapping_at(rule, end) for rule in rules for end in ("source", "destination")]
    return ends if policy.api in CALICO else []


def _chooses_by_labels(policy: ForeignPolicy) -> bool:
    """Return whether a policy's rules select sources or destinations by labels. Such rules may also
    select network sets."""
    return any(BY_LABELS & end.keys() for end in _ends(policy))


def _services(policy: ForeignPolicy) -> set[tuple[str, str]]:
    """Return namespace and name of the Services that a policy's rules name."""
    named = [mapping_at(end, "services") for end in _ends(policy)]
    return {
        (str(one.get("namespace") or policy.namespace), str(one["name"]))
        for one in named
        if one.get("name")
    }


def _with_members(
    policy: ForeignPolicy, service: tuple[str, str], slices: Sequence[Obj]
) -> ForeignPolicy:
    """Return a policy with the members of a Service. Raise UsageProblem if they cannot be read."""
    members = World(slices).backends.get(service, [])
    versions = [str(item["metadata"].get("resourceVersion")) for item in slices]
    version = "/".join([policy.version, *versions])
    return replace(policy, services={**policy.services, service: members}, version=version)


def _with_sets(policy: ForeignPolicy, sets: Sequence[Obj]) -> ForeignPolicy:
    """Return a policy with the network sets that its rules may select, so that a change of a set
    counts as a change of the policy."""
    versions = [str(item["metadata"].get("resourceVersion")) for item in sets]
    read = tuple(_set_of(item) for item in sets)
    return replace(policy, sets=read, version="/".join([policy.version, *versions]))


def _set_of(item: Obj) -> NetworkSet:
    """Return a network set. An unreadable set may have any address and label."""
    space = item["metadata"].get("namespace")
    known = labels.of_network_set(item, {} if space else None)
    of_namespace: labels.Labels | None = None if space else {}
    try:
        nets = fields.nets(spec_of(item).get("nets"), item["metadata"]["name"]) or ()
    except UsageProblem:
        return NetworkSet(space, None, of_namespace, (ANY_ADDRESS,))
    return NetworkSet(space, known, of_namespace, nets)
