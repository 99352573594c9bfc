# SPDX-License-Identifier: Apache-2.0
"""ClusterNetworkPolicies: tier Admin comes before the policies of namespaces, tier Baseline applies
to pods that no such policy selects."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, verifies

REMOVED = "without a policy everything is allowed"
DENIED = "the Admin tier denies 8081, whatever the namespace's policies say"
ACCEPTED = "the Admin tier accepts 8082, whatever the namespace's policies say"
PASSED_AND_ALLOWED = (
    "the Admin tier passes 8083 to the namespace's policy, which allows this client"
)
PASSED_AND_DENIED = (
    "the Admin tier passes 8083 to the namespace's policy, which does not allow this client"
)


@manifest("policy/limits/cluster_admin.yaml")
@verifies("XPOL-21", part="Admin")
def test_the_tier_admin_counts_before_the_policies_of_namespaces(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    linux = pods.clients("linux").one_per_os()
    windows = pods.clients("windows")
    servers = pods.servers("linux") + pods.servers("windows")
    expect.change(
        policy.filled(friend=linux),
        Case(linux + windows, servers, tcp=8081, open=False, because=DENIED),
        Case(linux + windows, servers, tcp=8082, open=True, because=ACCEPTED),
        Case(linux, servers, tcp=8083, open=True, because=PASSED_AND_ALLOWED),
        Case(windows, servers, tcp=8083, open=False, because=PASSED_AND_DENIED),
        Case(windows, linux, tcp=8080, udp=8080, open=True, because="no policy selects clients"),
    )
    expect.removed(policy, because=REMOVED)


@manifest("policy/limits/cluster_baseline.yaml")
@verifies("XPOL-21", part="Baseline")
def test_the_tier_baseline_decides_where_no_other_policy_does(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    linux = pods.clients("linux").one_per_os()
    windows = pods.clients("windows")
    servers = pods.servers("linux") + pods.servers("windows")
    allowed = "the Baseline tier does not deny Linux clients"
    denied = (
        "the Baseline tier denies Windows clients, and no policy of the namespace selects the "
        "servers"
    )
    expect.change(
        policy.filled(),
        Case(linux, servers, tcp=8080, udp=8080, open=True, because=allowed),
        Case(windows, servers, tcp=8080, udp=8080, open=False, because=denied),
        Case(windows, linux, tcp=8080, udp=8080, open=True, because="no policy selects clients"),
    )
    expect.removed(policy, because=REMOVED)


@manifest("policy/limits/cluster_admin_egress.yaml")
@verifies("XPOL-21", part="Admin, egress", provisional=True)
def test_the_tier_admin_counts_for_who_leaves_before_the_policies_of_namespaces(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    clients = pods.clients("linux").one_per_os() + pods.clients("windows")
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    expect.change(
        policy.filled(),
        Case(clients, linux + windows, tcp=8081, open=False, because=DENIED),
        Case(clients, linux + windows, tcp=8082, open=True, because=ACCEPTED),
        Case(clients, linux, tcp=8083, open=True, because=PASSED_AND_ALLOWED),
        Case(clients, windows, tcp=8083, open=False, because=PASSED_AND_DENIED),
    )
    expect.removed(policy, because=REMOVED)


@manifest("policy/limits/cluster_baseline_egress.yaml")
@verifies("XPOL-21", part="Baseline, egress", provisional=True)
def test_the_tier_baseline_decides_who_leaves_where_no_other_policy_does(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    clients = pods.clients("linux").one_per_os() + pods.clients("windows")
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    denied = (
        "the Baseline tier denies Windows servers, and no policy of the namespace applies to egress"
    )
    expect.change(
        policy.filled(),
        Case(
            clients,
            linux,
            tcp=8080,
            open=True,
            because="the Baseline tier does not deny Linux servers",
        ),
        Case(clients, windows, tcp=8080, open=False, because=denied),
    )
    expect.removed(policy, because=REMOVED)
