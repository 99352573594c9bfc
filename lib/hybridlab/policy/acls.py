# SPDX-License-Identifier: Apache-2.0
"""An endpoint's ACL list as HNS has it on Windows: one flat list for both directions, with all set
members.

From felix/dataplane/windows/endpoint_mgr.go: the host's addresses come first, then each direction's
tiers as one list. If the default tier has no policy for a direction, the profile's allow-all rule
follows. The last entry is for the host's firewall. HNS is assumed to show no Id for a rule without
an Id.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hybridlab.dataplane.model import Acl
from hybridlab.policy.flattener import flattened, tier_rules
from hybridlab.policy.policy import DEFAULT_TIER, Direction, Policy, PolicyRule
from hybridlab.policy.policy_sets import HnsRule, LeftOut, Members, PolicySets, rule_ids
from hybridlab.policy.release import Release
from hybridlab.policy.render import TierPolicies, about

Entry = dict[str, object]
"""An entry in the format of ``Get-HnsEndpoint``'s Policies."""

FROM_HOST_PRIORITY = 900
DEFAULT_DENY_PRIORITY = 65500
FROM_HOST_ID = "allow-host-to-endpoint"
_DIRECTIONS: tuple[tuple[Direction, Literal["In", "Out"]], ...] = (
    ("ingress", "In"),
    ("egress", "Out"),
)

DEFAULT_DENY = (Acl(action="Block", direction="In", priority=DEFAULT_DENY_PRIORITY),)
"""ACLs that the CNI plugin puts on a new endpoint: it accepts nothing until Felix has programmed
it."""


@dataclass
class AclListBuilder:
    """The builder of the ACL lists of a node's endpoints.

    ``hosts`` are the node's own addresses, ``a.b.c.d/32``, which are always admitted.
    """

    release: Release
    members: Members
    hosts: tuple[str, ...]
    left_out: list[LeftOut] = field(default_factory=list)
    """The rules that are missing in the newest list."""

    def __post_init__(self) -> None:
        self._policy_sets = PolicySets(self.release, self.members)

    def build(self, tiers: Sequence[TierPolicies], namespace: str) -> tuple[Acl, ...]:
        """Return the whole list of an endpoint in ``namespace`` to which these policies apply.
        Raise FelixPanic."""
        self.left_out = []
        from_host = Acl(
            action="Allow",
            direction="In",
            priority=FROM_HOST_PRIORITY,
            remote=self.hosts,
            id=FROM_HOST_ID,
        )
        found = [from_host] if self.hosts else []
        for direction, shown_direction in _DIRECTIONS:
            rules = flattened(self._tiers(tiers, direction, namespace), self.release.defects)
            found += (_acl(rule, shown_direction) for rule in rules)
            found.append(
                Acl(action="Allow", direction=shown_direction, priority=0, rule_type="Host")
            )
        return tuple(found)

    def _tiers(
        self, tiers: Sequence[TierPolicies], direction: Direction, namespace: str
    ) -> list[list[HnsRule]]:
        found = []
        with_profile = True
        for tier in tiers:
            policies = about(tier, direction)
            enforced = list(self._enforced(policies))
            if enforced or (policies and self.release.defects.staged_policies_deny):
                with_profile = with_profile and tier.name != DEFAULT_TIER
                found.append(
                    tier_rules((self._rules(policy, direction) for policy in enforced), tier.end)
                )
        if with_profile:
            found.append(tier_rules(((_profile(namespace, direction),),), "deny"))
        return found

    def _enforced(self, policies: Iterable[Policy]) -> Iterator[Policy]:
        """Yield the policies that are not staged. In a release whose staged policies deny, the
        first staged policy ends the list."""
        for policy in policies:
            if not policy.staged:
                yield policy
            elif self.release.defects.staged_policies_deny:
                self.left_out.append(
                    LeftOut(
                        str(policy.key),
                        "staged: it denies, and the policies after it have no effect",
                        warned=True,
                    )
                )
                return

    def _rules(self, policy: Policy, direction: Direction) -> list[HnsRule]:
        made = self._policy_sets.rules(policy, direction)
        self.left_out += (left_out for left_out in made if isinstance(left_out, LeftOut))
        return [rule for rule in made if isinstance(rule, HnsRule)]


def _profile(namespace: str, direction: Direction) -> HnsRule:
    """Return the allow-all rule of a namespace's profile."""
    name = f"kns.{namespace}"
    (rule_id,) = rule_ids(
        [PolicyRule(action="allow")], f"prof-{'in' if direction == 'ingress' else 'out'}-{name}"
    )
    return HnsRule("Allow", id=f"profile-{name}-{rule_id}-0")


def _acl(rule: HnsRule, direction: Literal["In", "Out"]) -> Acl:
    assert rule.action != "Pass", "the last tier passes nothing on"
    return Acl(
        action=rule.action,
        direction=direction,
        priority=rule.priority,
        protocol=rule.protocol,
        local=rule.local,
        remote=rule.remote,
        local_ports=rule.local_ports,
        remote_ports=rule.remote_ports,
        id=rule.id,
    )


def shown(acls: Sequence[Acl]) -> tuple[Entry, ...]:
    """Return an ACL list in the form in which HNS shows it."""
    return tuple(
        {
            "Type": "ACL",
            **({"Id": acl.id} if acl.id else {}),
            "Action": acl.action,
            "Direction": acl.direction,
            "Protocol": acl.protocol,
            "LocalAddresses": ",".join(acl.local),
            "RemoteAddresses": ",".join(acl.remote),
            "LocalPorts": ports_text(acl.local_ports),
            "RemotePorts": ports_text(acl.remote_ports),
            "Priority": acl.priority,
            "RuleType": acl.rule_type,
        }
        for acl in acls
    )


def ports_text(ports: Iterable[tuple[int, int]]) -> str:
    """Return ports in HNS' form: ``80,8000-8080``."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ports)
