"""A policy that selects a pod for egress and has no rule lets it reach nobody, by TCP or UDP; other pods do.

What reaches nobody has no open way of its own: that it has a network at all is shown by a bystander, which reaches it.
"""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import each_os, either_policy_api, other, verifies

pytestmark = [verifies("POL-1", part="{policy}: default deny egress, {client_os} client")]


@each_os("client_os")
@either_policy_api("default_deny_egress")
def test_the_selected_pod_reaches_nobody(pods: WorkerPods, policy: Policy, expect: Expect, client_os: OS) -> None:
    clients, bystanders = pods.clients(client_os), pods.clients(other(client_os))
    servers = pods.servers("linux") + pods.servers("windows")
    opened = [*bystanders.to(servers + clients).tcp(8080), *bystanders.to(servers).udp(8080)]
    closed = clients.to(servers).tcp_and_udp(8080)
    because = "a policy without rules selects these clients, and no others"
    expect.change(policy.filled(client=clients), open=opened, closed=closed, because=because)
    expect.removed(policy, because="without a policy everything is allowed")
