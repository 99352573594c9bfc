"""Of two Calico policies that speak of the same traffic the one with the lower order decides."""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import each_os, manifest, needs, other, verifies

pytestmark = [needs(calico_policy=True)]


@each_os("server_os")
@verifies("POL-1", part="calico: allow before deny, {server_os} server")
@manifest("policy/calico/allow_before_deny.yaml")
def test_an_allow_of_lower_order_wins(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    servers = pods.servers(server_os)
    bystanders = pods.servers(other(server_os))
    friends = pods.clients(server_os)
    strangers = pods.clients(other(server_os))
    filled = policy.filled(server=servers, friend=friends)
    opened = [*friends.to(servers).tcp(8080), *strangers.to(bystanders).tcp(8080)]
    because = "order 10 allows the friends, order 20 denies everybody"
    expect.change(filled, open=opened, closed=strangers.to(servers).tcp(8080), because=because)
    expect.removed(policy, because="without a policy everything is allowed")


@each_os("server_os")
@verifies("POL-1", part="calico: deny before allow, {server_os} server")
@manifest("policy/calico/deny_before_allow.yaml")
def test_a_deny_of_lower_order_wins(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    servers = pods.servers(server_os)
    bystanders = pods.servers(other(server_os))
    foes = pods.clients(server_os)
    others = pods.clients(other(server_os))
    filled = policy.filled(server=servers, friend=foes)
    opened = [*others.to(servers).tcp(8080), *foes.to(bystanders).tcp(8080)]
    because = "order 10 denies these clients, order 20 allows everybody"
    expect.change(filled, open=opened, closed=foes.to(servers).tcp(8080), because=because)
    expect.removed(policy, because="without a policy everything is allowed")
