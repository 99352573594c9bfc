"""A policy that selects a pod for egress and has no rule lets it reach nobody, in the cluster or beyond; others do.

Others are also pods with the same labels in another namespace.  What reaches nobody has no open way of its own: that it
has a network at all is shown by a bystander, which reaches it.
"""

from conformance.fixtures import OS, Beyond, Expect, Policy, WorkerPods
from conformance.marks import about, each_os, either_policy_api, other, verifies

pytestmark = [verifies("POL-1", part="{policy}: default deny egress, {client_os} client")]


@about("tcp", "udp")
@each_os("client_os")
@either_policy_api("default_deny_egress")
def test_the_selected_pod_reaches_nobody(
    pods: WorkerPods, policy: Policy, expect: Expect, beyond: Beyond, client_os: OS
) -> None:
    clients = pods.clients(client_os)
    bystanders = pods.clients(other(client_os))
    servers = pods.servers("linux") + pods.servers("windows")
    namesakes = pods.elsewhere(client_os)
    within = [
        *bystanders.to(servers + clients).udp(8080),
        *(bystanders + namesakes).to(servers + clients).tcp(8080),
    ]
    away, others_away = beyond.ways(clients, bystanders)
    opened = [*within, *others_away]
    closed = [*clients.to(servers).tcp_and_udp(8080), *away]
    because = "a policy without rules selects these clients, and no others: not those of that name in another namespace"
    expect.change(policy.filled(client=clients), open=opened, closed=closed, because=because)
    expect.removed(policy, because="without a policy everything is allowed")
