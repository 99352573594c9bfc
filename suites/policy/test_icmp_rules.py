# SPDX-License-Identifier: Apache-2.0
"""Windows leaves out rules on a type of ICMP, negated or not, and keeps rules on ICMP without a
type."""

import pytest

from conformance.fixtures import Case, Expect, ExternalPaths, Policy, WorkerPods
from conformance.marks import manifest, verifies

ADMITTED = "the rule for TCP 8080 admits this client"
NOT_ADMITTED = "the rule for TCP 8080 does not admit this client"
NOT_SELECTED = "no policy selects clients"
LEFT_OUT = "Windows leaves out a rule that matches an ICMP type, and no other rule admits this ping"


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
    part: str, pods: WorkerPods, policy: Policy, expect: Expect, external: ExternalPaths
) -> None:
    by_type = pods.clients("linux").one_per_os()
    by_icmp = pods.clients("windows").one_per_os()
    no_rule = pods.elsewhere("linux").one_per_os()
    linux = pods.servers("linux").one_per_os()
    windows = pods.servers("windows").one_per_build()
    external.before((by_type + by_icmp + no_rule).to(linux + windows))
    expect.under(
        policy.filled(friend=by_type, stranger=by_icmp),
        Case(by_type, linux + windows, tcp=8080, open=True, because=ADMITTED),
        Case(by_icmp, linux + windows, tcp=8080, open=False, because=NOT_ADMITTED),
        Case(by_icmp, by_type, tcp=8080, open=True, because=NOT_SELECTED),
    )
    external.under_icmp_rules(
        part,
        linux=by_type.to(linux),
        skipped=by_type.to(windows),
        kept=no_rule.to(windows),
        allowed=by_icmp.to(linux + windows),
        because=LEFT_OUT,
    )
