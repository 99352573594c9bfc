# SPDX-License-Identifier: Apache-2.0
"""What Windows leaves out: a Deny keeps nobody out, an Allow or a Pass lets nobody in, and the next rule decides."""

from conformance.fixtures import Limits, Policy
from conformance.marks import manifest, needs, verifies


@manifest("policy/limits/left_out.yaml")
@needs(calico_policy=True)
@verifies("XPOL-2", part="Deny")
@verifies("XPOL-2", part="Allow")
@verifies("XPOL-4", part="a name beside a number")
@verifies("XPOL-4", part="a name")
@verifies("XPOL-5", part="Log")
@verifies("XPOL-9", part="ipVersion")
@verifies("XPOL-9", part="network")
@verifies("UNSUP-2", part="methods")
def test_windows_decides_by_the_rules_that_are_left(policy: Policy, limits: Limits) -> None:
    negated = [limits.denied("XPOL-2", {"Deny": 8081}), limits.allowed("XPOL-2", {"Allow": 8082})]
    named = limits.allowed("XPOL-4", {"a name beside a number": 8083, "a name": 8087})
    ipv6 = limits.passed_over("XPOL-9", {"ipVersion": 8085, "network": 8086})
    cases = [*negated, named, limits.passed_over("XPOL-5", {"Log": 8084}), ipv6]
    cases.append(limits.unlimited("UNSUP-2", {"methods": 8088}))
    because = "Windows leaves out what it has no words for, and the next rule, or the policies' end, decides"
    limits.under(
        policy.filled(friend=limits.friend, stranger=limits.stranger), cases=cases, because=because
    )


@manifest("policy/limits/left_out_pass.yaml")
@needs(v3_api=True)
@verifies("XPOL-2", part="Pass")
def test_what_a_left_out_pass_would_pass_ends_with_the_tier(policy: Policy, limits: Limits) -> None:
    cases = [limits.allowed("XPOL-2", {"Pass": 8081})]
    because = "Windows leaves the Pass out, and the tier's end denies what no tier after it is asked about"
    limits.under(
        policy.filled(friend=limits.friend, stranger=limits.stranger), cases=cases, because=because
    )
