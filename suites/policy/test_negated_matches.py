# SPDX-License-Identifier: Apache-2.0
"""Windows has no words for a match that is negated, and leaves the whole rule out: whom it lets in stays outside."""

from conformance.fixtures import Limits, Policy
from conformance.marks import manifest, needs, verifies

BECAUSE = "Windows leaves out a rule with a negated match or a port's name, and nothing else lets anybody in"


@manifest("policy/limits/kubernetes.yaml")
@verifies("XPOL-1", part="except")
@verifies("XPOL-4", part="kubernetes: a name")
def test_a_kubernetes_rule_with_an_exception_or_a_ports_name_lets_nobody_in(
    policy: Policy, limits: Limits
) -> None:
    cases = [
        limits.allowed("XPOL-1", {"except": 8081}),
        limits.allowed("XPOL-4", {"kubernetes: a name": 8087}),
    ]
    limits.under(
        policy.filled(friend=limits.friend, stranger=limits.stranger), cases=cases, because=BECAUSE
    )


@manifest("policy/limits/negated.yaml")
@needs(v3_api=True)
@verifies("XPOL-1", part="notNets")
@verifies("XPOL-1", part="notPorts")
@verifies("XPOL-1", part="notSelector alone")
@verifies("XPOL-1", part="notPorts by name")
@verifies("XPOL-1", part="notNets of IPv6")
def test_a_calico_rule_with_a_negated_match_lets_nobody_in(policy: Policy, limits: Limits) -> None:
    ports = {"notNets": 8081, "notPorts": 8082, "notSelector alone": 8083, "notPorts by name": 8084}
    cases = [limits.allowed("XPOL-1", {**ports, "notNets of IPv6": 8085})]
    limits.under(
        policy.filled(friend=limits.friend, stranger=limits.stranger), cases=cases, because=BECAUSE
    )


@manifest("policy/limits/not_protocol.yaml")
@needs(calico_policy=True)
@verifies("XPOL-1", part="notProtocol")
def test_a_rule_for_all_protocols_but_one_lets_nobody_in(policy: Policy, limits: Limits) -> None:
    cases = [limits.allowed("XPOL-1", {"notProtocol": 8081})]
    limits.under(policy.filled(friend=limits.friend), cases=cases, because=BECAUSE)
