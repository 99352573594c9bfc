# SPDX-License-Identifier: Apache-2.0
"""Policies that are untracked or come before DNAT are for hosts, and leave pods alone."""

from conformance.fixtures import Limits, Policy
from conformance.marks import manifest, verifies


@manifest("policy/limits/for_hosts.yaml")
@verifies("XPOL-17", part="doNotTrack")
@verifies("XPOL-17", part="preDNAT")
@verifies("XPOL-17", part="applyOnForward alone")
def test_policies_for_hosts_close_nothing_at_pods(policy: Policy, limits: Limits) -> None:
    cases = [
        limits.untouched("XPOL-17", {"doNotTrack": 8081, "preDNAT": 8082}),
        limits.closed("XPOL-17", {"applyOnForward alone": 8083}),
    ]
    because = (
        "untracked policies and those before DNAT are not for pods, and one on forwarded traffic is"
    )
    limits.under(policy.filled(friend=limits.friend), cases=cases, because=because)
