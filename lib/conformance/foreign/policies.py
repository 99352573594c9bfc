# SPDX-License-Identifier: Apache-2.0
"""Policies of the cluster that may decide a path: which exist, who owns them, what they excuse.

A foreign policy excuses a result only if it selects an end of the path, in that direction, and
could give the result. It does not excuse the result if the same path behaved differently under the
same, unchanged policy (uid and resourceVersion) in the same test.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from conformance.errors import SuiteError
from conformance.expect.owners import NOW, Times
from conformance.foreign.beforehand import EXEMPT
from conformance.foreign.interference import Interference
from conformance.foreign.paths import (
    ObservedPath,
    describe,
    end_of,
    may_close,
    node_end,
    ways_between,
)
from conformance.foreign.snapshot import (
    DECIDING,
    Snapshot,
    own_objects,
    policy_in_event,
    read,
    spec_of,
)
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.model.decision import Side
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.model.facts import Facts
from conformance.pods.cluster_dns import ClusterDns
from conformance.policy import labels
from conformance.policy.foreign import End, ForeignPolicy, Observed
from conformance.policy.oracle.policies import DIRECTIONS
from conformance.policy.oracle.switches import PROMISE, Switch, Switches, columns

RECENTLY = 120.0
"""Seconds for which a deleted policy may still explain results. Felix never takes longer than
this."""
FRESH = 3.0
"""Seconds for which an answer about policies that were added or removed is used again, as long as
the run's own policies stay the same."""

Path = tuple[Workload, Target, str]
"""Source, target and protocol."""


@dataclass
class ForeignPolicies:
    """The policies of other owners on a cluster, named and judged for one worker."""

    kube: Kube
    changes: Changes
    facts: Facts | None = None
    """The facts, with the release of Calico on each Windows node; None if the facts are not known.
    """
    exempt: str = EXEMPT
    _removed: dict[str, float] = field(default_factory=dict)
    """Policies that this worker has removed, by name, each with its time (``time.monotonic``)."""
    _snapshots: list[Snapshot] = field(default_factory=list)
    _claims: Sequence[str] = ()
    """Claims that the test is about."""
    _open: Sequence[Path] = ()
    """Paths that the test observed to be open before the test made any policy."""
    _passed: dict[int, tuple[float, list[ForeignPolicy]]] = field(default_factory=dict)
    """For the version at which a search began: the time of the search, and the policies that were
    created or changed since this version."""
    _is_current: bool | None = None
    """How :meth:`look` works. True: it returns the newest snapshot again. False: it reads once
    more, and then returns that snapshot. None: it reads at each call."""
    _resolvers: list[Target] | None = None
    """The cluster's DNS pods behind their Service; None if they were not read since the newest
    snapshot."""

    def __post_init__(self) -> None:
        self._interference = Interference(self.kube, self.changes)

    @property
    def _newest(self) -> Snapshot:
        return self._snapshots[-1]

    def look(self) -> Snapshot:
        """Read the policies now, and remember them."""
        if self._is_current:
            return self._newest
        is_own = own_objects(self.changes.run, self.changes.uids)
        self._snapshots.append(read(self.kube, time.monotonic(), is_own))
        # a new comparison, so that the worker's own objects are read again, too
        self._interference = Interference(self.kube, self.changes)
        self._resolvers = None
        self._is_current = None if self._is_current is None else True
        return self._newest

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """Read the policies, and the objects that they select, at most once in this block.

        A failure may affect thousands of paths. Without this block, the policies would be read
        again for each path.
        """
        self._is_current = False
        try:
            yield
        finally:
            self._is_current = None

    def record_removal(self, label: str) -> None:
        """Remember that this worker has removed a policy."""
        self._removed[label] = time.monotonic()

    def __call__(self, pods: Sequence[Workload]) -> list[str]:
        """Return the names of policies that may select a pod, of policies that could not be read,
        and of policies that were deleted just now.

        A name looks like ``NetworkPolicy demo/deny (networking.k8s.io/v1), a foreign policy``.
        """
        snapshot = self.look()
        ends = self._ends(pods).values()
        names = [
            f"{policy.label} ({policy.api})" + ("" if own else ", a foreign policy")
            for policy, own in snapshot.policies
            if any(policy.selects(end, each) is not False for end in ends for each in DIRECTIONS)
        ]
        now = time.monotonic()
        removed = [
            f"{label}, deleted {now - at:.0f} s ago"
            for label, at in self._removed.items()
            if now - at <= RECENTLY
        ]
        return [*names, *(f"not read: {reason}" for reason in snapshot.unread), *removed]

    def excuse(
        self,
        source: Workload,
        target: Target,
        observed: Observed,
        *,
        protocol: str = "",
        times: Times = NOW,
        at: Side = "both",
        lasting: bool = False,
    ) -> str:
        """Describe the foreign policies that could cause the result of a path; an empty string if
        there are none.

        ``times``: a policy counts if a snapshot since the first attempt has it, even if it was
        deleted or edited since then. It does not count if it existed when the path had another
        result. ``at``: the end at which policies count. ``lasting``: count only policies that
        existed before the first attempt and are in the newest snapshot.
        """
        snapshot = self._newest if lasting and self._snapshots else self.look()
        path = self._path(source, target, observed, protocol, at)
        excuses = [
            *self._interference.services(target),
            *path.selected(self._interference.policies(snapshot)),
            self._by_labels(path, snapshot),
            path.describe(self._givers(path, snapshot, times, lasting=lasting)),
        ]
        text = "; ".join(filter(None, dict.fromkeys(excuses)))
        return text or ("" if lasting else path.describe(self._passing(times.since)))

    def observe(self, claims: Sequence[str], open_paths: Sequence[Path]) -> None:
        """Record the claims of a test, and the paths that were open while no policy of the test was
        in force."""
        self._claims = claims
        self._open = open_paths

    def explains(
        self, source: Workload, target: Target, protocol: str, *, times: Times = NOW
    ) -> bool:
        """Return whether a closed path is explained by a policy that existed before the first
        attempt and still exists."""
        snapshot = self._newest
        path = self._path(source, target, "closed", protocol, "both")
        givers = self._givers(path, snapshot, times, lasting=True) if snapshot.foreign else []
        return bool(path.describe(givers))

    def defect(self, source: Workload, target: Target, protocol: str) -> str:
        """Describe the policy that closes a path by a defect that the test is about; an empty
        string if there is none."""
        if not any(switch.since and switch.claim in self._claims for switch in Switch):
            return ""
        path = self._path(source, target, "closed", protocol, "both")
        return replace(path, ends=self._ends).describe(self._newest.foreign)

    def blame(
        self,
        policies: Sequence[ForeignPolicy],
        source: Workload,
        target: Target,
        observed: Observed,
        *,
        protocol: str,
        at: Side = "both",
    ) -> str:
        """Describe the policies, among these, that could cause the result of a path; an empty
        string if there are none."""
        self.look()
        return self._path(source, target, observed, protocol, at).describe(policies)

    def forecloses(self, ways: Sequence[Path]) -> list[str]:
        """Return for each path a text about the foreign policies that certainly close it. The text
        is empty if there are none, or if another policy may open the path.

        This uses the newest snapshot, and confirms its result by another snapshot.
        """
        if not self._snapshots:
            self.look()
        closing = self._closing(self._newest, ways)
        return self._closing(self.look(), ways) if any(closing) else closing

    def _closing(self, snapshot: Snapshot, paths: Sequence[Path]) -> list[str]:
        pods = [pod for source, target, _ in paths for pod in (source, *target.backends)]
        # usually this decides, and needs no request to the cluster
        every = {self._columns(pod) for pod in pods}
        if not may_close(snapshot.foreign, {pod.namespace for pod in pods}, every):
            return [""] * len(paths)
        ends = self._ends(pods)
        closing = []
        for source, target, protocol in paths:
            ways = list(ways_between(ends, source, target, protocol))
            surely = describe(snapshot.foreign, ways, "closed", surely=True)
            closing.append("" if describe(snapshot.foreign, ways, "open") else surely)
        return closing

    def _path(
        self, source: Workload, target: Target, observed: Observed, protocol: str, at: Side
    ) -> ObservedPath:
        """Describe a path. If the target has only a name, include the cluster's DNS."""
        targets = [target] if target.host or target.backends else [target, *self._dns()]
        ends = partial(self._ends, claims=self._claims)
        return ObservedPath(source, targets, observed, protocol, at, ends)

    def _givers(
        self, path: ObservedPath, snapshot: Snapshot, times: Times, *, lasting: bool
    ) -> list[ForeignPolicy]:
        """Return the foreign policies that may have caused the result of a path. Leave out policies
        that would also have closed other paths of the same pods, although these paths stayed open.
        """
        candidates = self._candidates(snapshot, times, lasting=lasting)
        pods = {pod.uid for pod in path.pods}
        beside = [
            self._path(source, target, "closed", protocol, "both")
            for source, target, protocol in self._open
            if pods & {pod.uid for pod in (source, *target.backends)} and len(target.backends) < 2
        ]
        if path.observed == "open" or not beside:
            return candidates
        before = self._versions_until(times.since)
        every = [policy for policy, _ in snapshot.policies]
        return [
            policy
            for policy in candidates
            if (policy.uid, policy.version) not in before
            or not path.is_withstood(policy, beside, [one for one in every if one != policy])
        ]

    def _candidates(
        self, snapshot: Snapshot, times: Times, *, lasting: bool
    ) -> list[ForeignPolicy]:
        """Return the foreign policies observed so far. Leave out policies under which the path once
        had the opposite result."""
        snapshots = [snapshot]
        if times.since and not lasting:
            snapshots += [past for past in self._snapshots if past.at >= times.since]
        found = {
            (policy.uid, policy.version): policy for past in snapshots for policy in past.foreign
        }
        otherwise = self._versions_until(times.otherwise)
        before = self._versions_until(times.since)
        return [
            policy
            for key, policy in found.items()
            if key not in otherwise and (key in before or not lasting)
        ]

    def _until(self, moment: float | None) -> list[Snapshot]:
        """Return the snapshots up to a moment (``time.monotonic``); none if it is None."""
        return [past for past in self._snapshots if moment is not None and past.at <= moment]

    def _versions_until(self, moment: float | None) -> set[tuple[str, str]]:
        """Return uid and version of every foreign policy observed up to this moment
        (``time.monotonic``)."""
        return {
            (policy.uid, policy.version) for past in self._until(moment) for policy in past.foreign
        }

    def _by_labels(self, path: ObservedPath, snapshot: Snapshot) -> str:
        """Describe policies that could cause the result only because other users changed the labels
        of a pod's namespace."""
        if not self._interference.relabelled(pod.namespace for pod in path.pods):
            return ""
        before = path.ways_between(self._ends(path.pods, as_made=True))
        policies = [
            policy
            for policy, _ in snapshot.policies
            if not describe([policy], before, path.observed)
        ]
        by = path.describe(policies)
        return f"after another user changed labels of the pod's namespace, {by}" if by else ""

    def _passing(self, since: float | None) -> list[ForeignPolicy]:
        """Return foreign policies that were created or changed since the first attempt on a path,
        or since this worker changed a policy of its own.

        A policy that was created and deleted between two snapshots is in neither of them. Therefore
        the API server is asked for the events in between.
        """
        before = self._until(since)
        version = self._newest_version(before)
        if not version:
            return []
        at, policies = self._passed.get(version, (-FRESH, []))
        if time.monotonic() - at < FRESH or (self._is_current and at > self._newest.at):
            return policies
        known = {policy.uid: policy.spec for past in before for policy in past.foreign}
        now = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            batches = pool.map(
                lambda served: self._changed_since(version, served, known), self._newest.kinds
            )
            policies = [policy for batch in batches for policy in batch]
        self._passed = {**(self._passed if self._is_current else {}), version: (now, policies)}
        return policies

    def _newest_version(self, snapshots: Sequence[Snapshot]) -> int:
        """Return the newest version of these snapshots and of the worker's policies; 0 if it is not
        known."""
        made = [obj for ref, obj in list(self.changes.kept.items()) if ref.kind in DECIDING]
        versions = [past.version for past in snapshots]
        versions += [str(obj["metadata"].get("resourceVersion")) for obj in made]
        return max((int(version) for version in versions if version.isdigit()), default=0)

    def _changed_since(
        self, version: int, served: tuple[str, str], known: Mapping[str, Mapping[str, Any]]
    ) -> list[ForeignPolicy]:
        """Return foreign policies of an API and kind that were created or changed since
        ``version``.

        ``known`` maps each uid to the earlier spec.
        """
        is_own = own_objects(self.changes.run, self.changes.uids)
        api, kind = served
        found: dict[str, Obj] = {}
        # the API server may no longer know the version, or may refuse this user
        with suppress(SuiteError):
            for event in self.kube.watch(api, kind, None, str(version), seconds=1.0):
                obj = event["object"]
                is_known = known.get(str(obj["metadata"].get("uid")), {}) == spec_of(obj)
                if event["type"] != "BOOKMARK" and not (is_known or is_own(obj)):
                    found[obj["metadata"]["resourceVersion"]] = obj
        return [policy_in_event(self.kube, api, kind, obj) for obj in found.values()]

    def _ends(
        self, pods: Sequence[Workload], *, as_made: bool = False, claims: Sequence[str] = ()
    ) -> dict[str, End]:
        """Return each pod as policies match it, by uid.

        ``as_made``: use the labels that the worker gave its namespaces. ``claims``: leave out the
        defects that these claims are about.
        """
        namespaces: dict[str, Obj | None] = {}
        accounts: dict[tuple[str, str], Obj | None] = {}
        found: dict[str, End] = {}
        read = self._interference.read
        for pod in {pod.uid: pod for pod in pods}.values():
            name = pod.namespace
            if pod.host_network:  # Felix on Windows enforces no HostEndpoint
                of_endpoint = self._newest.hosts.get(pod.node) if pod.os == "linux" else None
                found[pod.uid] = node_end(pod.node, of_endpoint or {}, pod.address)
                continue
            if name not in namespaces:
                made = self._interference.made(name) if as_made else None
                namespaces[name] = made or read("Namespace", name)
            obj = read("Pod", pod.pod, name)
            account = name, labels.account_of(obj or {})
            if obj and account not in accounts:
                accounts[account] = read("ServiceAccount", account[1], name)
            found[pod.uid] = end_of(
                obj, namespaces[name], accounts.get(account), pod, self._columns(pod, claims)
            )
        return found

    def _columns(self, pod: Workload, claims: Sequence[str] = ()) -> tuple[Switches, ...]:
        """Return the ways in which the node of a pod may read policies, without the defects that
        these claims are about."""
        if pod.os != "windows":
            return (PROMISE,)
        every = columns(self.facts.calico_on(pod.node).value if self.facts else None)
        own = {switch for switch in Switch if switch.since and switch.claim in claims}
        return tuple(dict.fromkeys(column - own for column in every))

    def _dns(self) -> list[Target]:
        """Return the cluster's DNS pods behind their Service, or an empty list if none is found."""
        if self._resolvers is None:
            self._resolvers = []
            with suppress(SuiteError):
                self._resolvers = [
                    replace(pod, path=Addressing.CLUSTER_IP)
                    for pod in ClusterDns(self.kube, "").pods()
                ]
        return self._resolvers
