"""An ingress rule with single addresses admits those, and nobody else: not even pods of the same node and block."""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import each_os, either_policy_api, other, verifies

pytestmark = [verifies("POL-1", part="{policy}: ingress by address, {server_os} server")]


@each_os("server_os")
@either_policy_api("ingress_by_address")
def test_only_the_allowed_address_enters(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    servers = pods.servers(server_os)
    bystanders = pods.servers(other(server_os))
    friends = pods.clients(server_os)
    strangers = pods.clients(other(server_os)) + pods.elsewhere(server_os)
    filled = policy.filled(server=servers, friend=friends)
    opened = [*friends.to(servers).tcp(8080), *strangers.to(bystanders).tcp(8080)]
    because = "the one rule allows the friends' addresses, and pods keep theirs"
    expect.change(filled, open=opened, closed=strangers.to(servers).tcp(8080), because=because)
    expect.removed(policy, because="without a policy everything is allowed")
