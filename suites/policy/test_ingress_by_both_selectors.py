"""A rule with a namespace selector and a pod selector admits what both select; neither of them is enough."""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import each_os, either_policy_api, other, verifies

pytestmark = [verifies("POL-1", part="{policy}: ingress by both selectors, {server_os} server")]


@each_os("server_os")
@either_policy_api("ingress_by_both_selectors")
def test_only_what_both_selectors_select_enters(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    friends = pods.elsewhere(server_os)
    foes = pods.elsewhere(other(server_os))
    strangers = pods.clients(server_os) + foes
    servers = pods.servers(server_os)
    bystanders = pods.servers(other(server_os))
    opened = [*friends.to(servers).tcp(8080), *strangers.to(bystanders).tcp(8080)]
    filled = policy.filled(server=servers, foe=foes)
    closed = strangers.to(servers).tcp(8080)
    because = "the strangers have the friends' label in another namespace, or another label in the friends' namespace"
    expect.change(filled, open=opened, closed=closed, because=because)
    expect.removed(policy, because="without a policy everything is allowed")
