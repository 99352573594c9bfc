# SPDX-License-Identifier: Apache-2.0
"""Policies of the cluster that may decide a path: which exist, who owns them, and what they excuse.

A foreign policy excuses a result only if it selects an end of the path, in that direction, and
could give the result. It does not where the same path behaved otherwise under it, unchanged (uid
and resourceVersion), in the same test.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from conformance.errors import SuiteError
from conformance.expect.owners import NOW, Times
from conformance.foreign.beforehand import EXEMPT
from conformance.foreign.interference import Interference
from conformance.foreign.paths import (
    DIRECTIONS,
    ObservedPath,
    describe,
    end_of,
    may_close,
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
from conformance.pods.cluster_dns import ClusterDns
from conformance.policy.foreign import End, ForeignPolicy, Seen

RECENTLY = 120.0
"""s. How long a deleted policy may still be blamed: Felix may be late, but not that late."""
FRESH = 3.0
"""s. How long an answer about passing policies is used again under the same policies of the run."""

Path = tuple[Workload, Target, str]
"""Source, target and protocol."""


@dataclass
class ForeignPolicies:
    """Names and judges the policies of one cluster, for one worker."""

    kube: Kube
    changes: Changes
    exempt: str = EXEMPT
    _removed: dict[str, float] = field(default_factory=dict)
    """Policies that this worker has removed, by name, each with its time (``time.monotonic``)."""
    _snapshots: list[Snapshot] = field(default_factory=list)
    _passed: tuple[int, float, list[ForeignPolicy]] = (0, 0.0, [])
    """The newest answer about passing policies: since which version, its time, and the policies."""

    @cached_property
    def _interference(self) -> Interference:
        return Interference(self.kube, self.changes)

    @property
    def _newest(self) -> Snapshot:
        return self._snapshots[-1]

    def look(self) -> Snapshot:
        """Read the policies now, and remember them."""
        is_own = own_objects(self.changes.run, self.changes.uids)
        self._snapshots.append(read(self.kube, time.monotonic(), is_own))
        return self._newest

    def record_removal(self, label: str) -> None:
        """Remember that this worker has removed a policy."""
        self._removed[label] = time.monotonic()

    def __call__(self, pods: Sequence[Workload]) -> list[str]:
        """Name the policies that may select a pod, those that were not read, and those just
        deleted.

        ``NetworkPolicy demo/deny (networking.k8s.io/v1), not the run's own``.
        """
        snapshot = self.look()
        ends = self._ends(pods).values()
        names = [
            f"{policy.label} ({policy.api})" + ("" if own else ", not the run's own")
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
        seen: Seen,
        *,
        protocol: str = "",
        times: Times = NOW,
        at: Side = "both",
        lasting: bool = False,
    ) -> str:
        """Return which foreign policies could give what was observed on a path; empty: none.

        ``times``: a policy counts that some snapshot since the first attempt has, even if it is
        gone or edited by now, but not one that was there when the path behaved otherwise. ``at``:
        the end at which policies count. ``lasting``: only policies that were there before the first
        attempt and still are, by the newest snapshot."""
        snapshot = self._newest if lasting and self._snapshots else self.look()
        path = self._path(source, target, seen, protocol, at)
        excuses = [
            *self._interference.services(target),
            *path.selected(self._interference.policies(snapshot)),
            self._by_labels(path, snapshot),
            path.describe(self._candidates(snapshot, times, lasting=lasting)),
        ]
        text = "; ".join(filter(None, dict.fromkeys(excuses)))
        return text or ("" if lasting else path.describe(self._passing(times.since)))

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
        return self._path(source, target, seen, protocol, at).describe(policies)

    def forecloses(self, ways: Sequence[Path]) -> list[str]:
        """Return for each path the foreign policies that surely close it while none may open it.

        By the newest snapshot; what it shows is confirmed by another.
        """
        if not self._snapshots:
            self.look()
        closing = self._closing(self._newest, ways)
        return self._closing(self.look(), ways) if any(closing) else closing

    def _closing(self, snapshot: Snapshot, paths: Sequence[Path]) -> list[str]:
        pods = [pod for source, target, _ in paths for pod in (source, *target.backends)]
        # the usual case asks nothing of the cluster
        if not may_close(snapshot.foreign, {pod.namespace for pod in pods}):
            return [""] * len(paths)
        ends = self._ends(pods)
        closing = []
        for source, target, protocol in paths:
            ways = list(ways_between(ends, source, target, protocol))
            surely = describe(snapshot.foreign, ways, "closed", surely=True)
            closing.append("" if describe(snapshot.foreign, ways, "open") else surely)
        return closing

    def _path(
        self, source: Workload, target: Target, seen: Seen, protocol: str, at: Side
    ) -> ObservedPath:
        """Describe a path; it includes the cluster's DNS where the target has only a name."""
        targets = [target] if target.host or target.backends else [target, *self._dns()]
        return ObservedPath(source, targets, seen, protocol, at, self._ends)

    def _candidates(
        self, snapshot: Snapshot, times: Times, *, lasting: bool
    ) -> list[ForeignPolicy]:
        """Return foreign policies observed so far under which the path never behaved otherwise."""
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
        """Return the snapshots until then (``time.monotonic``); None: none."""
        return [past for past in self._snapshots if moment is not None and past.at <= moment]

    def _versions_until(self, moment: float | None) -> set[tuple[str, str]]:
        """Return uid and version of every foreign policy until then (``time.monotonic``)."""
        return {
            (policy.uid, policy.version) for past in self._until(moment) for policy in past.foreign
        }

    def _by_labels(self, path: ObservedPath, snapshot: Snapshot) -> str:
        """Return policies that could give the result only since a pod's namespace has other
        labels."""
        if not self._interference.relabelled(pod.namespace for pod in path.pods):
            return ""
        before = path.ways_between(self._ends(path.pods, as_made=True))
        policies = [
            policy for policy, _ in snapshot.policies if not describe([policy], before, path.seen)
        ]
        by = path.describe(policies)
        return f"since somebody changed labels of its namespace {by}" if by else ""

    def _passing(self, since: float | None) -> list[ForeignPolicy]:
        """Return foreign policies that came or changed since a path was first asked.

        Or since this worker changed a policy of its own. No snapshot has a policy that is gone by
        the next one, so that the API server is asked for what happened meanwhile.
        """
        before = self._until(since)
        version = self._newest_version(before)
        if not version:
            return []
        if version == self._passed[0] and time.monotonic() - self._passed[1] < FRESH:
            return self._passed[2]
        known = {policy.uid: policy.spec for past in before for policy in past.foreign}
        with ThreadPoolExecutor(8) as pool:
            batches = pool.map(
                lambda served: self._changed_since(version, served, known), self._newest.kinds
            )
            policies = [policy for batch in batches for policy in batch]
        self._passed = version, time.monotonic(), policies
        return policies

    def _newest_version(self, snapshots: Sequence[Snapshot]) -> int:
        """Return the newest version of these snapshots and of the worker's policies; 0: unknown."""
        made = [obj for ref, obj in list(self.changes.kept.items()) if ref.kind in DECIDING]
        versions = [past.version for past in snapshots]
        versions += [str(obj["metadata"].get("resourceVersion")) for obj in made]
        return max((int(version) for version in versions if version.isdigit()), default=0)

    def _changed_since(
        self, version: int, served: tuple[str, str], known: Mapping[str, Mapping[str, Any]]
    ) -> list[ForeignPolicy]:
        """Return foreign policies of one API and kind that came or changed since ``version``.

        ``known``: uid to the spec before.
        """
        is_own = own_objects(self.changes.run, self.changes.uids)
        api, kind = served
        found: dict[str, Obj] = {}
        # the API server may have forgotten, or refuse this user
        with suppress(SuiteError):
            for event in self.kube.watch(api, kind, None, str(version), seconds=1.0):
                obj = event["object"]
                is_known = known.get(str(obj["metadata"].get("uid")), {}) == spec_of(obj)
                if event["type"] != "BOOKMARK" and not (is_known or is_own(obj)):
                    found[obj["metadata"]["resourceVersion"]] = obj
        return [policy_in_event(self.kube, api, kind, obj) for obj in found.values()]

    def _ends(self, pods: Sequence[Workload], *, as_made: bool = False) -> dict[str, End]:
        """Return each pod's end by uid; ``as_made``: with the labels the worker gave its
        namespace."""
        namespaces: dict[str, Obj | None] = {}
        found: dict[str, End] = {}
        for pod in {pod.uid: pod for pod in pods}.values():
            name = pod.namespace
            if name not in namespaces:
                made = self._interference.made(name) if as_made else None
                namespaces[name] = made or self._interference.read("Namespace", name)
            obj = self._interference.read("Pod", pod.pod, name)
            found[pod.uid] = end_of(obj, namespaces[name], pod)
            if pod.host_network:
                host = self._newest.hosts.get(pod.node) or {}
                found[pod.uid] = End(
                    namespace=f"node {pod.node}", pod={}, calico=host, of_namespace={}
                )
        return found

    def _dns(self) -> list[Target]:
        """Return the cluster's DNS pods behind their Service; none where they are not found."""
        with suppress(SuiteError):
            return [
                replace(pod, path=Addressing.CLUSTER_IP) for pod in ClusterDns(self.kube, "").pods()
            ]
        return []
