"""Policies of the cluster that may decide a path: which are there, whose they are, and what they excuse.

A foreign policy excuses what was seen only if it selects an end, in that direction, and could give it; and not where
the same path behaved otherwise under it, unchanged (uid and resourceVersion), in the same test.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from conformance.errors import SuiteError
from conformance.expect.owners import NOW, Times
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import (
    NAMESPACE_PREFIX,
    RUN_LABEL,
    WORKER_LABEL,
    Ownership,
    labels_of,
)
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef
from conformance.model.decision import Side
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.pods.cluster_dns import ClusterDns
from conformance.pods.roles import ECHO_PORT
from conformance.policy import labels
from conformance.policy.foreign import ADMIN as ADMIN_KINDS
from conformance.policy.foreign import DEFAULT, Direction, End, ForeignPolicy, NetworkSet, Seen, Way
from conformance.run.provider import Beforehand

KUBERNETES = "networking.k8s.io/v1"
CALICO = ("projectcalico.org/v3", "crd.projectcalico.org/v1")
"""The first that is served is read."""
ADMIN = ("policy.networking.k8s.io/v1alpha2", "policy.networking.k8s.io/v1alpha1")
READ = ("NetworkPolicy", "GlobalNetworkPolicy", *ADMIN_KINDS)
"""Kinds that decide."""
SETS = ("GlobalNetworkSet", "NetworkSet")
BY_LABELS = {"selector", "notSelector", "namespaceSelector"}
"""Fields of a rule's source or destination."""
RECENTLY = 120.0
"""s.  For how long a policy that is gone may still be blamed: Felix may be late, but not that late."""
FRESH = 3.0
"""s.  For so long what passed is not asked again under the same policies of the run."""
TWINS = ("knp.", "kanp.", "kbanp.", "kcnp.")
"""Beginnings of names under which Calico's API serves policies of Kubernetes' APIs a second time."""
ADMIN_TIERS = {
    "AdminNetworkPolicy": "adminnetworkpolicy",
    "BaselineAdminNetworkPolicy": "baselineadminnetworkpolicy",
}
"""Calico's names for the tiers of these kinds (v3.29 on); a ClusterNetworkPolicy names its own."""
EXEMPT = (
    "exempt the run's namespaces from it by name and label (Calico: namespaceSelector ... && !(projectcalico.org/name "
    f"starts with '{NAMESPACE_PREFIX}' && has({RUN_LABEL})); Kubernetes, and why not by the label alone: "
    "docs/field-guide.md), or run where it does not apply"
)
DIRECTIONS: tuple[Direction, ...] = ("ingress", "egress")
ENFORCED: Mapping[Direction, Side] = {"ingress": "target", "egress": "source"}
SEEN: tuple[Seen, ...] = ("closed", "open")
WORDS = {"closed": ("may deny", "denies"), "open": ("may allow", "allows")}
DEFAULT_ORDER = 1_000_000
"""Order of Calico's tier ``default``."""


@dataclass(frozen=True)
class Look:
    """The policies of a cluster at one time."""

    policies: tuple[tuple[ForeignPolicy, bool], ...]
    """Each with whether it is the run's own."""
    unread: tuple[str, ...]
    """Kinds that could not be read, each with the right that is missing or what else was in the way."""
    version: str = ""
    """The cluster's resourceVersion before they were read."""
    kinds: tuple[tuple[str, str], ...] = ()
    """API and kind of what is served."""
    hosts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Node to the labels of its HostEndpoint, which puts the node itself under policy; none of most clusters."""

    @property
    def foreign(self) -> tuple[ForeignPolicy, ...]:
        """Those of others."""
        return tuple(policy for policy, own in self.policies if not own)


def look(kube: Kube, own: Callable[[Obj], bool]) -> Look:
    """Read all kinds of policies that this cluster serves; staged ones decide nothing and are left out."""
    calico = calico_api(kube)
    reading = _Reading(kube, calico)
    kinds = [
        (KUBERNETES, "NetworkPolicy"),
        *((calico, kind) for kind in ("NetworkPolicy", "GlobalNetworkPolicy") if calico),
        *admin_kinds(kube),
    ]
    found = reading.policies(kinds, own)
    endpoints = reading.endpoints()
    return Look(
        policies=(
            *found,
            *(
                (_of_host(calico, one), False)
                for one in endpoints
                if not _spec(one).get("profiles")
            ),
        ),
        unread=tuple(reading.unread),
        version=next(iter(reading.versions), ""),
        kinds=tuple(kinds),
        # without labels a HostEndpoint is an endpoint all the same
        hosts={str(_spec(one).get("node")): labels_of(one) or {"": ""} for one in endpoints},
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


@dataclass
class _Reading:
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
            found, version = self.kube.objects_at(api, kind)
        except ApiRefused as refusal:
            right = (
                f"the run's user may not list {kind} ({api}): bind manifests/rbac/read-only.yaml"
            )
            self.unread.append(right if refusal.forbidden else f"{kind} ({api}): {refusal.message}")
        except SuiteError as error:
            self.unread.append(f"{kind} ({api}): {str(error).splitlines()[0]}")
        else:
            self.versions.append(version)
            return found
        return []

    def tiers(self) -> dict[str, Obj]:
        """Return Calico's tiers by name."""
        found = self.listed(self.calico, "Tier") if self.calico else []
        return {tier["metadata"]["name"]: tier for tier in found}

    def sets(self) -> list[Obj]:
        """Return Calico's sets of networks."""
        return [one for kind in SETS for one in self.listed(self.calico, kind)]

    def policies(
        self, kinds: Sequence[tuple[str, str]], own: Callable[[Obj], bool]
    ) -> list[tuple[ForeignPolicy, bool]]:
        """Return the policies of these kinds, each with whether it is the run's own."""
        tiers = self.tiers()
        found = [
            (_policy(api, kind, obj, tiers), own(obj))
            for api, kind in kinds
            for obj in self.listed(api, kind)
            if not (api == self.calico and obj["metadata"]["name"].startswith(TWINS))
        ]
        if all(mine or not _chooses_by_labels(policy) for policy, mine in found):
            return found
        sets = self.sets()
        return [(_beside(policy, sets), mine) for policy, mine in found]

    def endpoints(self) -> list[Obj]:
        """Return the HostEndpoints."""
        served = self.calico and self.kube.discovery.serves(self.calico, "HostEndpoint")
        return self.listed(self.calico, "HostEndpoint") if served else []


def beforehand(kube: Kube, run: Ownership) -> Beforehand:
    """Which policies of others may decide paths of pods that a run is going to make, and which could not be read."""
    found = look(kube, whose(run, lambda uid: False))
    given = ({} if run.prefix else run.labels) | {"pod-security.kubernetes.io/enforce": "baseline"}
    space = labels.of_namespace({"metadata": {"name": run.namespace, "labels": given}})
    end = End(namespace=run.namespace, of_namespace=space)
    ways = [
        (
            "this run's pods",
            Way(direction=each, end=end, other=end, protocol="TCP", ports=(ECHO_PORT,)),
        )
        for each in DIRECTIONS
    ]
    closing, opening = (_told(found.foreign, ways, seen) for seen in SEEN)
    return Beforehand(
        closing=closing,
        opening=opening,
        unread="; ".join(found.unread),
        exempt=f"exempt namespaces {run.prefix}-... by name" if run.prefix else EXEMPT,
    )


def _spec(obj: Obj) -> Obj:
    return obj.get("spec") or {}


def _policy(api: str, kind: str, obj: Obj, tiers: Mapping[str, Obj]) -> ForeignPolicy:
    meta = obj["metadata"]
    spec = _spec(obj)
    baseline = kind == "BaselineAdminNetworkPolicy" or str(spec.get("tier")) == "Baseline"
    tier = ADMIN_TIERS.get(kind) or str(spec.get("tier") or DEFAULT)
    there = tiers.get(tier) or {"metadata": {}}
    known = _spec(there)
    order = known.get("order")
    versions = [one["metadata"].get("resourceVersion") for one in (obj, there)]
    return ForeignPolicy(
        kind=kind,
        name=str(meta["name"]),
        namespace=str(meta.get("namespace") or ""),
        api=api,
        uid=str(meta.get("uid") or ""),
        version="/".join(filter(None, versions)),
        spec=spec,
        tier=tier,
        tier_passes=known.get("defaultAction") == "Pass",
        before_default=not baseline
        and (tier == DEFAULT or order is None or float(order) <= DEFAULT_ORDER),
    )


def _of_host(api: str, endpoint: Obj) -> ForeignPolicy:
    """What a HostEndpoint without a profile does to its node by itself: whatever no policy allows is denied."""
    return replace(
        _policy(api, "HostEndpoint", endpoint, {}),
        namespace=f"node {_spec(endpoint).get('node')}",
        spec={"types": ["Ingress", "Egress"]},
    )


def as_told(kube: Kube, api: str, kind: str, obj: Obj) -> ForeignPolicy:
    """A policy as a watch tells it, beside its tier and the sets of networks that are there now."""
    reading = _Reading(kube, api if api in CALICO else "")
    policy = _policy(api, kind, obj, reading.tiers())
    return _beside(policy, reading.sets()) if _chooses_by_labels(policy) else policy


def _chooses_by_labels(policy: ForeignPolicy) -> bool:
    """Whether rules of Calico's choose sources or targets so, and with that sets of networks."""
    rules = [*(policy.spec.get("ingress") or ()), *(policy.spec.get("egress") or ())]
    ends = [rule.get(end) or {} for rule in rules for end in ("source", "destination")]
    return policy.api in CALICO and any(BY_LABELS & end.keys() for end in ends)


def _beside(policy: ForeignPolicy, sets: Sequence[Obj]) -> ForeignPolicy:
    """A policy with the sets that its rules may choose, whose change is one of its own."""
    if not _chooses_by_labels(policy):
        return policy
    nets = [
        NetworkSet(
            labels.of_network_set(one, {} if one["metadata"].get("namespace") else None),
            tuple(_spec(one).get("nets") or ()),
        )
        for one in sets
    ]
    version = "/".join(
        [policy.version, *(str(one["metadata"].get("resourceVersion")) for one in sets)]
    )
    return replace(policy, sets=tuple(nets), version=version)


def whose(run: Ownership, made: Callable[[str], bool]) -> Callable[[Obj], bool]:
    """Tells a run's own policies: by uid those of this worker (``made``), by labels those of its other workers."""

    def own(obj: Obj) -> bool:
        if made(str(obj["metadata"].get("uid") or "")):
            return True
        return run.owns(obj) and labels_of(obj).get(WORKER_LABEL) != run.worker

    return own


@dataclass(frozen=True)
class _ObservedPath:
    """A path that policies may have opened or closed: its ends, and how it behaved."""

    source: Workload
    targets: Sequence[Target]
    seen: Seen
    protocol: str
    at: Side
    """The end at which policies count."""
    ends: Callable[[Sequence[Workload]], Mapping[str, End]]
    """Reads what selectors see of pods; called only where a policy is to be judged."""

    @property
    def pods(self) -> list[Workload]:
        """All pods of the path, its source first."""
        return [self.source, *(pod for each in self.targets for pod in each.backends)]

    @cached_property
    def ways(self) -> list[tuple[str, Way]]:
        """The path as policies see it now."""
        return self.ways_between(self.ends(self.pods))

    def ways_between(self, ends: Mapping[str, End]) -> list[tuple[str, Way]]:
        """Return the path as policies see it between such ends."""
        return [
            (pod, way)
            for target in self.targets
            for pod, way in _ways(ends, self.source, target, self.protocol)
            if self.at in ("both", ENFORCED[way.direction])
        ]

    def told(self, policies: Sequence[ForeignPolicy]) -> str:
        """Describe which of these policies could give what was observed; empty: none."""
        return _told(policies, self.ways, self.seen) if policies else ""

    def selected(self, described: Iterable[tuple[str, ForeignPolicy]]) -> list[str]:
        """Return the descriptions of those policies that may select an end of the path."""
        return [
            text
            for text, policy in described
            if any(policy.selects(way.end, way.direction) is not False for _, way in self.ways)
        ]


@dataclass
class PoliciesThere:
    """Names and judges policies on one cluster, for one worker."""

    kube: Kube
    changes: Changes
    gone: dict[str, float] = field(default_factory=dict)
    """Policies that this worker has removed, by name, each with when (``time.monotonic``)."""
    exempt: str = EXEMPT
    _looks: list[tuple[float, Look]] = field(default_factory=list)
    _heard: tuple[int, float, list[ForeignPolicy]] = (0, 0.0, [])
    """The newest answer of what passed: since which version, when it was given, and which."""

    def look(self) -> Look:
        """Read them now, and remember when."""
        began = time.monotonic()
        found = look(self.kube, whose(self.changes.run, self.changes.uids.__contains__))
        self._looks.append((began, found))
        return found

    def went(self, label: str) -> None:
        """This worker has removed a policy."""
        self.gone[label] = time.monotonic()

    def __call__(self, pods: Sequence[Workload]) -> list[str]:
        """``NetworkPolicy demo/deny (networking.k8s.io/v1)``, of those that may select a pod; and what is not read."""
        now = self.look()
        ends = self._ends(pods).values()
        found = [
            f"{policy.label} ({policy.api})" + ("" if own else ", not the run's own")
            for policy, own in now.policies
            if any(policy.selects(end, each) is not False for end in ends for each in DIRECTIONS)
        ]
        return [*found, *(f"not read: {why}" for why in now.unread), *self._recently()]

    def excuse(
        self,
        source: Workload,
        target: Target,
        seen: Seen,
        *,
        protocol: str = "",
        times: Times = NOW,
        at: Side = "both",
        lasting: bool = False,
    ) -> str:
        """Return which policies of others could give what was observed on a path; empty: none.

        ``times``: what a look has found since the path was asked first counts, gone or edited by
        now or not, but not what was there when the path behaved otherwise.  ``at``: the end at
        which policies count.  ``lasting``: only what was there before the path was asked, and by
        the newest look still is.
        """
        now = self._looks[-1][1] if lasting and self._looks else self.look()
        path = self._path(source, target, seen, protocol, at)
        told = [
            *self._services(target),
            *path.selected(self._meddled(now)),
            self._by_labels(path, now),
            path.told(self._there(now, times, lasting=lasting)),
        ]
        text = "; ".join(filter(None, dict.fromkeys(told)))
        return text or ("" if lasting else path.told(self._passing(times.since)))

    def blame(
        self,
        policies: Sequence[ForeignPolicy],
        source: Workload,
        target: Target,
        seen: Seen,
        *,
        protocol: str,
        at: Side = "both",
    ) -> str:
        """Return which of these policies could give what was observed on a path; empty: none."""
        self.look()
        return self._path(source, target, seen, protocol, at).told(policies)

    def _path(
        self, source: Workload, target: Target, seen: Seen, protocol: str, at: Side
    ) -> _ObservedPath:
        """Describe a path; it includes the cluster's DNS where the target has only a name."""
        targets = [target] if target.host or target.backends else [target, *self._dns()]
        return _ObservedPath(source, targets, seen, protocol, at, self._ends)

    def _there(self, now: Look, times: Times, *, lasting: bool) -> list[ForeignPolicy]:
        """Return policies of others found so far under which the path never behaved otherwise."""
        looks = [now]
        looks += [
            past
            for when, past in self._looks
            if times.since and when >= times.since and not lasting
        ]
        several = {
            (policy.uid, policy.version): policy for past in looks for policy in past.foreign
        }
        return [
            policy
            for policy in several.values()
            if not self._was_there(policy, times.otherwise)
            and (self._was_there(policy, times.since) or not lasting)
        ]

    def _by_labels(self, path: _ObservedPath, now: Look) -> str:
        """Policies that could give it only with the labels that a namespace of a pod has by now."""
        if not self._relabelled(path.pods):
            return ""
        before = path.ways_between(self._ends(path.pods, as_made=True))
        by = path.told(
            [policy for policy, _ in now.policies if not _told([policy], before, path.seen)]
        )
        return f"since somebody changed labels of its namespace {by}" if by else ""

    def _passing(self, since: float | None) -> list[ForeignPolicy]:
        """Policies of others that came or changed since a way was asked first, or this worker changed one of its own.

        One that is gone by the next look is seen by none: the API server is asked for what happened meanwhile.
        """
        before = self._before(since)
        version = self._newest_version(before)
        if not version:
            return []
        if version == self._heard[0] and time.monotonic() - self._heard[1] < FRESH:
            return self._heard[2]
        known = {policy.uid: policy.spec for past in before for policy in past.foreign}
        with ThreadPoolExecutor(8) as pool:
            found = pool.map(
                lambda served: self._came(served, version, known), self._looks[-1][1].kinds
            )
            several = [policy for policies in found for policy in policies]
        self._heard = version, time.monotonic(), several
        return several

    def _newest_version(self, looks: Sequence[Look]) -> int:
        """Return the newest version of these looks and of this worker's policies; 0: unknown."""
        made = [obj for target, obj in list(self.changes.kept.items()) if target.kind in READ]
        versions = [past.version for past in looks]
        versions += [str(obj["metadata"].get("resourceVersion")) for obj in made]
        return max((int(one) for one in versions if one.isdigit()), default=0)

    def _before(self, moment: float | None) -> list[Look]:
        """Return the looks until then (``time.monotonic``); None: none."""
        return [past for when, past in self._looks if moment is not None and when <= moment]

    def _came(
        self, served: tuple[str, str], version: int, known: Mapping[str, Mapping[str, Any]]
    ) -> list[ForeignPolicy]:
        """Return policies of others of one kind that came or changed since ``version``.

        ``known``: uid to the spec before.
        """
        own = whose(self.changes.run, self.changes.uids.__contains__)
        api, kind = served
        found: dict[str, Obj] = {}
        with suppress(SuiteError):  # it has forgotten, or tells this user nothing
            for event in self.kube.watch(api, kind, None, str(version), seconds=1.0):
                obj = event["object"]
                there = known.get(str(obj["metadata"].get("uid")), {}) == _spec(obj)
                if event["type"] != "BOOKMARK" and not (there or own(obj)):
                    found[obj["metadata"]["resourceVersion"]] = obj
        return [as_told(self.kube, api, kind, obj) for obj in found.values()]

    def _meddled(self, now: Look) -> list[tuple[str, ForeignPolicy]]:
        """What somebody did to policies of this worker, as it made them and as they are; none where that is unread."""
        there = {policy.uid: policy for policy, _ in now.policies}
        found = list[tuple[str, ForeignPolicy]]()
        for target, obj in [] if now.unread else list(self.changes.kept.items()):
            made = _policy(target.api_version, target.kind, obj, {})
            left = there.get(made.uid, made if target.kind not in READ else None)
            if left is None:
                found.append((f"somebody's deletion of {made.label}", made))
            elif (
                left.spec != made.spec and left.version.partition("/")[0] != made.version
            ):  # else in other words
                found += [(f"somebody's edit of {made.label}", one) for one in (made, left)]
        return found

    def _services(self, target: Target) -> list[str]:
        """What somebody did to a Service of this worker by which a target is called."""
        found = []
        spaces = {pod.namespace for pod in target.backends}
        for one, made in list(self.changes.kept.items()):
            if (
                one.kind == "Service"
                and one.namespace in spaces
                and one.name in target.name.split()
            ):
                try:
                    left = self.kube.find("v1", "Service", one.name, one.namespace)
                except SuiteError:
                    continue
                if left is None or left.get("spec") != made.get("spec"):
                    found.append(f"somebody's {'edit' if left else 'deletion'} of {one.label}")
        return found

    def _relabelled(self, pods: Iterable[Workload]) -> bool:
        """Whether a namespace of some pods has other labels than this worker gave it."""
        spaces = {ObjectRef(api_version="v1", kind="Namespace", name=pod.namespace) for pod in pods}
        there = [
            (self.changes.kept.get(one), self._read("Namespace", one.name, None)) for one in spaces
        ]
        return any(made and now and labels_of(made) != labels_of(now) for made, now in there)

    def forecloses(self, ways: Sequence[tuple[Workload, Target, str]]) -> list[str]:
        """For each way (source, target, protocol) which policy of others surely closes it, while none may open it.

        By the newest look; what it finds is looked at once more.
        """
        if not self._looks:
            self.look()
        closing = self._closing(self._looks[-1][1], ways)
        return self._closing(self.look(), ways) if any(closing) else closing

    def _closing(self, now: Look, ways: Sequence[tuple[Workload, Target, str]]) -> list[str]:
        spaces = {pod.namespace for source, target, _ in ways for pod in (source, *target.backends)}
        if not any(
            map(_may_close(spaces), now.foreign)
        ):  # the usual case, which asks nothing of the cluster
            return [""] * len(ways)
        ends = self._ends([pod for source, target, _ in ways for pod in (source, *target.backends)])
        found = []
        for source, target, protocol in ways:
            several = list(_ways(ends, source, target, protocol))
            surely = _told(now.foreign, several, "closed", surely=True)
            found.append("" if _told(now.foreign, several, "open") else surely)
        return found

    def _was_there(self, policy: ForeignPolicy, moment: float | None) -> bool:
        """Whether it was there by then (``time.monotonic``), as it is here."""
        return (policy.uid, policy.version) in {
            (there.uid, there.version) for past in self._before(moment) for there in past.foreign
        }

    def _ends(self, pods: Sequence[Workload], *, as_made: bool = False) -> dict[str, End]:
        """Each pod's end, by uid; ``as_made``: with the labels that this worker gave its namespace."""
        spaces: dict[str, Obj | None] = {}
        found: dict[str, End] = {}
        for pod in {pod.uid: pod for pod in pods}.values():
            if pod.namespace not in spaces:
                made = self.changes.kept.get(
                    ObjectRef(api_version="v1", kind="Namespace", name=pod.namespace)
                )
                spaces[pod.namespace] = (made if as_made else None) or self._read(
                    "Namespace", pod.namespace, None
                )
            found[pod.uid] = end_of(
                self._read("Pod", pod.pod, pod.namespace), spaces[pod.namespace], pod
            )
            if pod.host_network:
                host = self._looks[-1][1].hosts.get(pod.node) or {}
                found[pod.uid] = End(
                    namespace=f"node {pod.node}", pod={}, calico=host, of_namespace={}
                )
        return found

    def _dns(self) -> list[Target]:
        """The cluster's DNS pods, as they are behind their Service; none where they are not found."""
        with suppress(SuiteError):
            return [
                replace(pod, path=Addressing.CLUSTER_IP) for pod in ClusterDns(self.kube, "").pods()
            ]
        return []

    def _read(self, kind: str, name: str, space: str | None) -> Obj | None:
        try:
            return self.kube.find("v1", kind, name, space)
        except SuiteError:
            return None

    def _recently(self) -> list[str]:
        now = time.monotonic()
        return [
            f"{label}, deleted {now - when:.0f} s ago"
            for label, when in self.gone.items()
            if now - when <= RECENTLY
        ]


def _told(
    foreign: Sequence[ForeignPolicy],
    ways: Sequence[tuple[str, Way]],
    seen: Seen,
    *,
    surely: bool = False,
) -> str:
    """``GlobalNetworkPolicy company-wide denies ingress of demo/server``, for each that could give what was seen."""
    found = []
    for policy in foreign:
        several = [(policy.could(way, seen), way.direction, pod) for pod, way in ways]
        several = [one for one in several if one[0] or (one[0] is None and not surely)]
        if several:
            truth, direction, pod = max(several, key=lambda one: bool(one[0]))
            found.append(f"{policy.label} {WORDS[seen][bool(truth)]} {direction} of {pod}")
    return "; ".join(dict.fromkeys(found))


def _may_close(spaces: Iterable[str]) -> Callable[[ForeignPolicy], bool]:
    """Whether a policy could close anything of pods in these namespaces, of which nothing else is known."""
    ways = [
        Way(direction=each, end=End(namespace=space), other=End())
        for space in spaces
        for each in DIRECTIONS
    ]
    return lambda policy: any(policy.could(way, "closed") is not False for way in ways)


def _ways(
    ends: Mapping[str, End], source: Workload, target: Target, protocol: str
) -> Iterator[tuple[str, Way]]:
    """Each direction at each end; a node is under policies of its HostEndpoint alone, and reaches its pods always."""
    name = protocol or target.protocol.upper()
    here = ends[source.uid]
    ports = tuple(dict.fromkeys(filter(None, (target.port, target.backend_port))))
    plain = target.path is Addressing.POD_IP  # behind a Service the source may have been translated
    for backend in target.backends or (None,):
        there = ends[backend.uid] if backend else _beyond(target)
        of_its_node = plain and source.host_network and _node(source) == _node(backend)
        if not source.host_network or (here.calico and not of_its_node):
            out = Way(direction="egress", end=here, other=there, protocol=name, ports=ports)
            yield _name(source), out
        if backend and not backend.host_network and not of_its_node:
            origin = here if plain else End()
            yield (
                _name(backend),
                Way(direction="ingress", end=there, other=origin, protocol=name, ports=ports[-1:]),
            )


def _beyond(target: Target) -> End:
    """The end of a path to a target that is no pod."""
    return End(address="" if target.path is Addressing.NAME else target.host)


def _node(pod: Workload | None) -> str:
    return pod.node if pod else ""


def _name(pod: Workload) -> str:
    return f"node {pod.node}" if pod.host_network else f"{pod.namespace}/{pod.pod}"


def end_of(pod: Obj | None, namespace: Obj | None, workload: Workload) -> End:
    """A pod as selectors see it; what was not read is not known."""
    of_namespace = labels.of_namespace(namespace) if namespace else None
    known = pod is not None and of_namespace is not None
    return End(
        namespace=workload.namespace,
        pod=labels.own(pod) if pod else None,
        calico=labels.of_pod(pod, of_namespace or {}, {}) if pod and known else None,
        of_namespace=of_namespace,
        address=workload.address,
    )
