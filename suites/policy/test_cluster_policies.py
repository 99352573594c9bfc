"""ClusterNetworkPolicies: tier Admin is asked before the policies of namespaces, tier Baseline where there is none."""

from conformance.fixtures import Expect, Policy, Sides, WorkerPods
from conformance.marks import manifest, verifies


@manifest("policy/limits/cluster_admin.yaml")
@verifies("XPOL-21", part="Admin")
def test_the_tier_admin_counts_before_the_policies_of_namespaces(
    policy: Policy, sides: Sides, expect: Expect
) -> None:
    friends = sides.friends.to(sides.servers)
    strangers = sides.strangers.to(sides.servers)
    opened = [*friends.tcp(8082), *strangers.tcp(8082), *friends.tcp(8083), *sides.beside]
    closed = [*friends.tcp(8081), *strangers.tcp(8081), *strangers.tcp(8083)]
    because = "Admin denies 8081, accepts 8082 and passes 8083 to the namespace's policy, which lets the friend in"
    expect.change(policy.filled(friend=sides.friends), open=opened, closed=closed, because=because)
    expect.removed(policy, because="without a policy everything is allowed")


@manifest("policy/limits/cluster_baseline.yaml")
@verifies("XPOL-21", part="Baseline")
def test_the_tier_baseline_decides_where_no_other_policy_does(
    policy: Policy, sides: Sides, expect: Expect
) -> None:
    because = (
        "Baseline denies the Windows clients, and no policy of the namespace is about the servers"
    )
    expect.change(policy.filled(), open=sides.opened, closed=sides.closed, because=because)
    expect.removed(policy, because="without a policy everything is allowed")


@manifest("policy/limits/cluster_admin_egress.yaml")
@verifies("XPOL-21", part="Admin, egress", provisional=True)
def test_the_tier_admin_counts_for_who_leaves_before_the_policies_of_namespaces(
    pods: WorkerPods, policy: Policy, sides: Sides, expect: Expect
) -> None:
    clients = sides.friends + sides.strangers
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    opened = [*clients.to(sides.servers).tcp(8082), *clients.to(linux).tcp(8083)]
    closed = [*clients.to(sides.servers).tcp(8081), *clients.to(windows).tcp(8083)]
    because = "Admin denies 8081, accepts 8082 and passes 8083 to the namespace's policy, which opens Linux servers"
    expect.change(policy.filled(), open=opened, closed=closed, because=because)
    expect.removed(policy, because="without a policy everything is allowed")


@manifest("policy/limits/cluster_baseline_egress.yaml")
@verifies("XPOL-21", part="Baseline, egress", provisional=True)
def test_the_tier_baseline_decides_who_leaves_where_no_other_policy_does(
    pods: WorkerPods, policy: Policy, sides: Sides, expect: Expect
) -> None:
    clients = sides.friends + sides.strangers
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    because = (
        "Baseline denies the Windows servers, and no policy of the namespace is about who leaves"
    )
    expect.change(
        policy.filled(),
        open=clients.to(linux).tcp(8080),
        closed=clients.to(windows).tcp(8080),
        because=because,
    )
    expect.removed(policy, because="without a policy everything is allowed")
