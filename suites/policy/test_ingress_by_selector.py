"""An ingress rule with a pod selector admits the pods that it selects, by TCP and UDP, and nobody else.

Nobody else are other pods, and in another namespace pods with the same labels on the friends' own nodes.
"""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import about, directions, either_policy_api, other, verifies

pytestmark = [verifies("POL-1", part="{policy}: ingress by selector, {client_os} to {server_os}")]


@about("tcp", "udp")
@directions()
@either_policy_api("ingress_by_selector")
def test_only_the_selected_client_enters(
    pods: WorkerPods, policy: Policy, expect: Expect, client_os: OS, server_os: OS
) -> None:
    servers = pods.servers(server_os)
    bystanders = pods.servers(other(server_os))
    friends = pods.clients(client_os)
    strangers = pods.clients(other(client_os)) + pods.elsewhere(client_os)
    filled = policy.filled(server=servers, friend=friends)
    opened = [*friends.to(servers).tcp_and_udp(8080), *strangers.to(bystanders).tcp(8080)]
    closed = strangers.to(servers).tcp_and_udp(8080)
    because = "the one rule allows the label of the friends, in the policy's own namespace"
    expect.change(filled, open=opened, closed=closed, because=because)
    expect.removed(policy, because="without a policy everything is allowed")
