# SPDX-License-Identifier: Apache-2.0
"""The differences between releases of Calico in policies: names, ties, tiers, and defects on
Windows.

Names and ties: up to v3.31 a policy's name is ``NAMESPACE/TIER.NAME`` (Kubernetes'
``NAMESPACE/knp.default.NAME``), which also sorts policies of equal order; from v3.32 on it is
``NAME/NAMESPACE/KIND`` of the object itself (felix/calc/policy_sorter.go). Defects: a release has
the defects that a run of its code showed.
"""

import re
from dataclasses import dataclass, field

from hybridlab.policy.admin_policy import (
    ADMIN_TIER,
    BASELINE_TIER,
    KUBE_ADMIN_TIER,
    KUBE_BASELINE_TIER,
)
from hybridlab.policy.policy import Policy, PolicyKey
from hybridlab.profiles.model import CalicoDefects

_KUBERNETES = {
    "KubernetesNetworkPolicy": "knp.default.",
    "StagedKubernetesNetworkPolicy": "knp.default.",
    "AdminNetworkPolicy": "kanp.adminnetworkpolicy.",
    "BaselineAdminNetworkPolicy": "kbanp.baselineadminnetworkpolicy.",
}
_FORMATTED = (
    "knp.default.",
    "kanp.adminnetworkpolicy.",
    "kbanp.baselineadminnetworkpolicy.",
    "ossg.",
)
DEFAULT_TIER_ORDER = 1_000_000.0


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: ``v3.31.2`` gives (3, 31, 2)."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def as_shipped(version: str) -> CalicoDefects:
    """Return the known defects of the Calico release ``version``."""
    release = numbers(version)
    return CalicoDefects(
        staged_policies_deny=release >= (3, 30, 0),
        pass_may_open_every_port=release >= (3, 29, 0),
        pass_may_panic=release >= (3, 29, 0),
        later_tiers_go_stale=release >= (3, 29, 0),
        edited_rules_go_stale=release >= (3, 32, 0),
        service_rules_match_members_only=release >= (3, 29, 0),
    )


@dataclass(frozen=True)
class Release:
    """A release of Calico with its defects."""

    version: str
    defects: CalicoDefects = field(default_factory=CalicoDefects)

    @property
    def has_typed_names(self) -> bool:
        """Return whether policies are named by kind, namespace and name, without their tier."""
        return numbers(self.version) >= (3, 32, 0)

    @property
    def leaves_out_covered_members(self) -> bool:
        """Return whether an IP set omits each member that another member covers."""
        return numbers(self.version) >= (3, 32, 0)

    @property
    def has_cluster_network_policy(self) -> bool:
        """Return whether ClusterNetworkPolicy replaces AdminNetworkPolicy and
        BaselineAdminNetworkPolicy."""
        return numbers(self.version) >= (3, 32, 0)

    @property
    def tiers(self) -> tuple[tuple[str, float, str], ...]:
        """Return (name, order, default action) of the tiers that always exist."""
        before, behind = (
            (KUBE_ADMIN_TIER, KUBE_BASELINE_TIER)
            if self.has_cluster_network_policy
            else (ADMIN_TIER, BASELINE_TIER)
        )
        return (
            ("default", DEFAULT_TIER_ORDER, "Deny"),
            (before, 1_000.0, "Pass"),
            (behind, 10_000_000.0, "Pass"),
        )

    def policy_name(self, key: PolicyKey) -> str:
        """Return the name that Felix gives a policy. In releases that store namespace and kind in
        separate fields, the name contains neither."""
        if self.has_typed_names:
            return key.name
        staged = "staged:" if key.kind.startswith("Staged") else ""
        place = f"{key.namespace}/" if key.namespace else ""
        return f"{place}{staged}{_tiered(key)}"

    def policy_id(self, key: PolicyKey) -> str:
        """Return the beginning of the ids of a policy's rules in HNS, after ``policy-``."""
        if not self.has_typed_names:
            return self.policy_name(key)
        return "/".join(filter(None, (key.kind, key.namespace, key.name)))

    def asked_at(self, policy: Policy) -> tuple[float, str]:
        """Return the sort key of a policy within its tier."""
        key = policy.key
        tie = (
            f"{key.name}/{key.namespace}/{key.kind}"
            if self.has_typed_names
            else self.policy_name(key)
        )
        return policy.order, tie


def _tiered(key: PolicyKey) -> str:
    """Return a policy's name with its tier in front. Kubernetes' policies have their own tier; the
    names of Calico's policies may omit the default tier."""
    if key.kind in _KUBERNETES:
        return f"{_KUBERNETES[key.kind]}{key.name}"
    return key.name if key.name.startswith(_FORMATTED) or "." in key.name else f"default.{key.name}"
