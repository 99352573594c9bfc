# SPDX-License-Identifier: Apache-2.0
"""The policies of a cluster at one moment, and what decides their meaning: tiers, network sets,
host endpoints."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

from conformance.errors import SuiteError
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import WORKER_LABEL, Ownership, labels_of
from conformance.kube.refused import ApiRefused
from conformance.policy import labels
from conformance.policy.foreign import ADMIN as ADMIN_KINDS
from conformance.policy.foreign import DEFAULT, ForeignPolicy, NetworkSet

KUBERNETES = "networking.k8s.io/v1"
CALICO = ("projectcalico.org/v3", "crd.projectcalico.org/v1")
"""The first API that is served is read."""
ADMIN = ("policy.networking.k8s.io/v1alpha2", "policy.networking.k8s.io/v1alpha1")
DECIDING = ("NetworkPolicy", "GlobalNetworkPolicy", *ADMIN_KINDS)
"""Kinds of policies that decide."""
SETS = ("GlobalNetworkSet", "NetworkSet")
BY_LABELS = {"selector", "notSelector", "namespaceSelector"}
"""Fields of a rule's source or destination."""
TWINS = ("knp.", "kanp.", "kbanp.", "kcnp.")
"""Beginnings of names under which Calico's API serves policies of Kubernetes' APIs a second
time."""
ADMIN_TIERS = {
    "AdminNetworkPolicy": "adminnetworkpolicy",
    "BaselineAdminNetworkPolicy": "baselineadminnetworkpolicy",
}
"""Calico's names for the tiers of these kinds (v3.29 on); a ClusterNetworkPolicy names its own."""
DEFAULT_ORDER = 1_000_000
"""Order of Calico's tier ``default``."""


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
    """API and kind of what is served."""
    hosts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Node to the labels of its HostEndpoint, which puts the node itself under policy. Most
    clusters have none."""

    @property
    def foreign(self) -> tuple[ForeignPolicy, ...]:
        """Return the policies of other owners."""
        return tuple(policy for policy, own in self.policies if not own)


def read(kube: Kube, at: float, is_own: Callable[[Obj], bool]) -> Snapshot:
    """Read every kind of policy that the cluster serves; staged policies decide nothing."""
    calico = calico_api(kube)
    reader = _Reader(kube, calico)
    kinds = [
        (KUBERNETES, "NetworkPolicy"),
        *((calico, kind) for kind in ("NetworkPolicy", "GlobalNetworkPolicy") if calico),
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
        # a HostEndpoint without labels is an endpoint all the same
        hosts={str(spec_of(item).get("node")): labels_of(item) or {"": ""} for item in endpoints},
    )


def calico_api(kube: Kube) -> str:
    """Return the API at which Calico's policies are read; empty where none is served."""
    return next((api for api in CALICO if kube.discovery.serves(api, "GlobalNetworkPolicy")), "")


def admin_kinds(kube: Kube) -> list[tuple[str, str]]:
    """Return API and kind of the administrators' policies that are served, newest API first."""
    return [
        (api, kind)
        for api in ADMIN
        for kind in (*ADMIN_TIERS, "ClusterNetworkPolicy")
        if kube.discovery.serves(api, kind)
    ]


def spec_of(obj: Obj) -> Obj:
    """Return the spec of an object; an empty mapping where it has none."""
    return obj.get("spec") or {}


def own_objects(run: Ownership, uids: Container[str] = ()) -> Callable[[Obj], bool]:
    """Recognize a run's own objects: this worker's by uid, those of the run's others by labels."""

    def is_own(obj: Obj) -> bool:
        return str(obj["metadata"].get("uid") or "") in uids or (
            run.owns(obj) and labels_of(obj).get(WORKER_LABEL) != run.worker
        )

    return is_own


def is_twin(api: str, obj: Obj) -> bool:
    """Return whether Calico's API serves a policy of another API in this object."""
    return api in CALICO and obj["metadata"]["name"].startswith(TWINS)


def policy_of(api: str, kind: str, obj: Obj, tiers: Mapping[str, Obj]) -> ForeignPolicy:
    """Return the policy in an object, in its tier."""
    meta = obj["metadata"]
    spec = spec_of(obj)
    is_baseline = kind == "BaselineAdminNetworkPolicy" or str(spec.get("tier")) == "Baseline"
    tier = ADMIN_TIERS.get(kind) or str(spec.get("tier") or DEFAULT)
    tier_object = tiers.get(tier) or {"metadata": {}}
    order = spec_of(tier_object).get("order")
    versions = [item["metadata"].get("resourceVersion") for item in (obj, tier_object)]
    return ForeignPolicy(
        kind=kind,
        name=str(meta["name"]),
        namespace=str(meta.get("namespace") or ""),
        api=api,
        uid=str(meta.get("uid") or ""),
        version="/".join(filter(None, versions)),
        spec=spec,
        tier=tier,
        tier_passes=spec_of(tier_object).get("defaultAction") == "Pass",
        before_default=not is_baseline
        and (tier == DEFAULT or order is None or float(order) <= DEFAULT_ORDER),
    )


def policy_in_event(kube: Kube, api: str, kind: str, obj: Obj) -> ForeignPolicy:
    """Return the policy in a watch's event, with its tier and the network sets of this moment."""
    reader = _Reader(kube, api if api in CALICO else "")
    policy = policy_of(api, kind, obj, reader.tiers())
    return _with_sets(policy, reader.sets()) if _chooses_by_labels(policy) else policy


@dataclass
class _Reader:
    """Reads what decides paths on a cluster, and notes what cannot be read."""

    kube: Kube
    calico: str
    """API of Calico's policies; empty where none is served."""
    unread: list[str] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    """The cluster's resourceVersion at each list that was read."""

    def listed(self, api: str, kind: str) -> list[Obj]:
        """Return all objects of a kind; none where they cannot be read."""
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

    def sets(self) -> list[Obj]:
        """Return Calico's network sets."""
        return [item for kind in SETS for item in self.listed(self.calico, kind)]

    def policies(
        self, kinds: Sequence[tuple[str, str]], is_own: Callable[[Obj], bool]
    ) -> list[tuple[ForeignPolicy, bool]]:
        """Return the policies of these kinds, each with whether it is the run's own."""
        tiers = self.tiers()
        policies = [
            (policy_of(api, kind, obj, tiers), is_own(obj))
            for api, kind in kinds
            for obj in self.listed(api, kind)
            if not is_twin(api, obj)
        ]
        if all(own or not _chooses_by_labels(policy) for policy, own in policies):
            return policies
        sets = self.sets()
        return [
            (_with_sets(policy, sets) if _chooses_by_labels(policy) else policy, own)
            for policy, own in policies
        ]

    def endpoints(self) -> list[Obj]:
        """Return the HostEndpoints."""
        is_served = self.calico and self.kube.discovery.serves(self.calico, "HostEndpoint")
        return self.listed(self.calico, "HostEndpoint") if is_served else []


def _of_host(api: str, endpoint: Obj) -> ForeignPolicy:
    """Return what a HostEndpoint without a profile does to its node: it denies what no policy
    allows."""
    return replace(
        policy_of(api, "HostEndpoint", endpoint, {}),
        namespace=f"node {spec_of(endpoint).get('node')}",
        spec={"types": ["Ingress", "Egress"]},
    )


def _chooses_by_labels(policy: ForeignPolicy) -> bool:
    """Return whether Calico's rules choose sources or targets by labels, and so network sets
    too."""
    rules = [*(policy.spec.get("ingress") or ()), *(policy.spec.get("egress") or ())]
    ends = [rule.get(end) or {} for rule in rules for end in ("source", "destination")]
    return policy.api in CALICO and any(BY_LABELS & end.keys() for end in ends)


def _with_sets(policy: ForeignPolicy, sets: Sequence[Obj]) -> ForeignPolicy:
    """Return a policy with the sets that its rules may choose: a change of a set changes the
    policy."""
    nets = [
        NetworkSet(
            labels.of_network_set(item, {} if item["metadata"].get("namespace") else None),
            tuple(spec_of(item).get("nets") or ()),
        )
        for item in sets
    ]
    versions = [str(item["metadata"].get("resourceVersion")) for item in sets]
    return replace(policy, sets=tuple(nets), version="/".join([policy.version, *versions]))
