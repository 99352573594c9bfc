# SPDX-License-Identifier: Apache-2.0
"""Windows leaves out rules on a type of ICMP, negated or not, and keeps those on ICMP alone."""

import pytest

from conformance.fixtures import Beyond, Limits, Policy
from conformance.marks import manifest, verifies


@pytest.mark.parametrize(
    "part",
    [
        pytest.param("type", marks=[manifest("policy/limits/icmp.yaml")]),
        pytest.param("notICMP", marks=[manifest("policy/limits/not_icmp.yaml")]),
    ],
)
@verifies("XPOL-3", part="{part}")
@verifies("XPOL-3", part="ICMP alone")
def test_a_rule_on_a_type_of_icmp_lets_no_ping_in(
    part: str, policy: Policy, limits: Limits, beyond: Beyond
) -> None:
    because = "Windows leaves out a rule on a type of ICMP, and nothing else lets this ping in"
    linux = limits.friend.to(limits.linux)
    skipped = limits.friend.to(limits.windows)
    allowed = limits.stranger.to(limits.linux + limits.windows)
    kept = limits.outsider.to(limits.windows)
    beyond.before(
        (limits.friend + limits.stranger + limits.outsider).to(limits.linux + limits.windows)
    )
    limits.in_force(
        policy.filled(friend=limits.friend, stranger=limits.stranger),
        because="TCP 8080 is the friend's",
    )
    beyond.under_icmp_rules(
        "XPOL-3", part, linux=linux, skipped=skipped, kept=kept, allowed=allowed, because=because
    )
