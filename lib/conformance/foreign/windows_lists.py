# SPDX-License-Identifier: Apache-2.0
"""The access rules that Felix must give HNS for a Windows pod, according to all policies of the
cluster.

Policies of other owners count like the run's own, since Felix renders all of them together.
"""

import re
from collections.abc import Iterator, Sequence

from conformance.errors import MissingCapability, UsageProblem
from conformance.foreign.snapshot import (
    CALICO,
    DISCOVERY,
    KUBERNETES,
    SETS,
    admin_kinds,
    calico_api,
    is_twin,
    staged_kinds,
)
from conformance.kube.client import Kube, Obj
from conformance.model.endpoint import Workload
from conformance.model.facts import Facts
from conformance.policy.acl_list import FelixPanics, HnsRule, acl_list
from conformance.policy.oracle.oracle import Oracle
from conformance.policy.oracle.policies import policy_of
from conformance.policy.oracle.switches import WINDOWS, Minor, as_shipped, subsets
from conformance.policy.oracle.world import Pod, World

AROUND = (
    ("v1", "Namespace"),
    ("v1", "ServiceAccount"),
    ("v1", "Pod"),
    (DISCOVERY, "EndpointSlice"),
)


class WindowsLists:
    """The rendered lists of a cluster's Windows pods."""

    def __init__(self, kube: Kube, facts: Facts) -> None:
        self._kube = kube
        self._facts = facts

    def expected(self, pod: Workload) -> list[tuple[HnsRule, ...]]:
        """Return two lists that a pod may have according to the cluster's present objects: with and
        without the known defects of Calico's release, since a patch may have corrected them.

        Raise MissingCapability if Calico's release is not known, or if a policy that may select the
        pod cannot be read.
        """
        try:
            oracle, own, minor = self._read(pod)
            return [acl_list(oracle, own, minor, switches) for switches in (None, WINDOWS)]
        except (UsageProblem, FelixPanics) as problem:
            raise MissingCapability(
                f"the access rules of {pod.label} are not known: {problem}",
                "remove what cannot be read, or read Get-HnsEndpoint by hand",
            ) from None

    def by_defects(self, pod: Workload) -> dict[str, tuple[HnsRule, ...]]:
        """Return a pod's list for each set of the release's known defects, the smallest sets first.
        The key describes the effects of the defects."""
        oracle, own, minor = self._read(pod)
        return {
            "; ".join(f"{each.claim}, {each.statement}" for each in defects): acl_list(
                oracle, own, minor, WINDOWS | defects
            )
            for defects in subsets(as_shipped(minor) - WINDOWS)
        }

    def _read(self, pod: Workload) -> tuple[Oracle, Pod, Minor]:
        """Return the cluster's policies, a pod, and the release that renders its list."""
        calico = self._facts.calico_on(pod.node)
        release = re.match(r"v?(\d+)\.(\d+)", calico.value or "")
        if not release:
            raise MissingCapability(
                f"Calico's version on node {pod.node} is not known: {calico.source}",
                "without the version, the order of Felix' rules is not known",
            )
        world = World(list(self._around()))
        own = world.pods[f"{pod.namespace}/{pod.pod}"]
        oracle = Oracle(world, [*self._tiers(), *self._policies(own)])
        return oracle, own, (int(release[1]), int(release[2]))

    def _around(self) -> Iterator[Obj]:
        """Yield all objects, other than policies, on which the meaning of policies depends."""
        calico = calico_api(self._kube)
        for api, kind in (*AROUND, *[(calico, kind) for kind in SETS if calico]):
            yield from self._listed(api, kind)

    def _tiers(self) -> Sequence[Obj]:
        calico = calico_api(self._kube)
        return self._listed(calico, "Tier") if calico else ()

    def _policies(self, own: Pod) -> Iterator[Obj]:
        """Yield the policies. Leave out policies that cannot be read and certainly do not select
        the pod."""
        calico = calico_api(self._kube)
        kinds = [
            (KUBERNETES, "NetworkPolicy"),
            *((calico, kind) for kind in ("NetworkPolicy", "GlobalNetworkPolicy") if calico),
            *staged_kinds(self._kube, calico),
            *admin_kinds(self._kube),
        ]
        for api, kind in kinds:
            yield from (
                obj
                for obj in self._listed(api, kind)
                if not (api in CALICO and is_twin(api, obj)) and self._may_count(obj, own)
            )

    @staticmethod
    def _may_count(obj: Obj, own: Pod) -> bool:
        try:
            policy_of(obj)
        except UsageProblem:
            loosely = policy_of(obj, strict=False)
            return loosely is None or loosely.concerns(own) is not False
        return True

    def _listed(self, api: str, kind: str) -> list[Obj]:
        return [{"apiVersion": api, "kind": kind, **item} for item in self._kube.objects(api, kind)]
