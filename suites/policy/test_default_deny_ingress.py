"""A policy that selects a pod for ingress and has no rule lets nobody in, by TCP or UDP, and concerns no other pod.

That the server, which nobody reaches, has a network at all is shown by what it reaches itself.
"""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import about, each_os, either_policy_api, other, verifies

pytestmark = [verifies("POL-1", part="{policy}: default deny ingress, {server_os} server")]


@about("tcp", "udp")
@each_os("server_os")
@either_policy_api("default_deny_ingress")
def test_nobody_enters_the_selected_pod(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers(server_os)
    bystanders = pods.servers(other(server_os))
    opened = (clients + servers).to(bystanders).tcp_and_udp(8080)
    closed = [*clients.to(servers).tcp_and_udp(8080), *clients.to(servers).tcp(45000)]
    because = "a policy without rules selects these servers, and no others"
    expect.change(policy.filled(server=servers), open=opened, closed=closed, because=because)
    expect.removed(policy, because="without a policy everything is allowed")
