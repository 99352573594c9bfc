# SPDX-License-Identifier: Apache-2.0
"""Policies that are untracked or applied before DNAT are for hosts, and do not affect pods."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, verifies

UNTRACKED = "doNotTrack"
BEFORE_DNAT = "preDNAT"
ON_FORWARD = "applyOnForward alone"
ADMITTED = "the rule for 8080 admits this client"
NOT_ADMITTED = "the rule for 8080 does not admit this client"
NOT_SELECTED = "no policy selects clients"
NOT_FOR_PODS = (
    "an untracked or preDNAT policy does not apply to pods, and another policy admits everybody"
)
FOR_PODS = (
    "a policy on forwarded traffic also applies to pods; it denies everybody, and is evaluated "
    "before the policy that admits everybody"
)


@manifest("policy/limits/for_hosts.yaml")
@verifies("XPOL-17", part=UNTRACKED)
@verifies("XPOL-17", part=BEFORE_DNAT)
@verifies("XPOL-17", part=ON_FORWARD)
def test_policies_for_hosts_close_nothing_at_pods(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    friend = pods.client("linux")
    other = pods.client("windows")
    servers = pods.servers("linux").one_per_os() + pods.servers("windows").one_per_build()
    expect.limitation(
        policy.filled(friend=friend),
        Case(friend, servers, tcp=8080, open=True, witness=True, because=ADMITTED),
        Case(other, servers, tcp=8080, open=False, witness=True, because=NOT_ADMITTED),
        Case(other, friend, tcp=8080, open=True, witness=True, because=NOT_SELECTED),
        Case(
            other, servers, tcp=8081, open=True, part=UNTRACKED, always=True, because=NOT_FOR_PODS
        ),
        Case(
            other, servers, tcp=8082, open=True, part=BEFORE_DNAT, always=True, because=NOT_FOR_PODS
        ),
        Case(other, servers, tcp=8083, open=False, part=ON_FORWARD, always=True, because=FOR_PODS),
    )
