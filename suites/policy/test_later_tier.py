"""What changes in the second tier that applies to a pod is enforced as what changes in its first."""

from conformance.fixtures import OS, Expect, Policy, Relabel, WorkerPods
from conformance.marks import each_os, manifest, other, verifies


@each_os("server_os")
@verifies("XPOL-13", part="edited rule, {server_os} server")
@manifest("policy/calico/edited_behind_a_tier.yaml")
def test_an_edit_behind_a_tier_is_enforced(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers(server_os)
    bystanders = pods.servers(other(server_os))
    ways = clients.to(servers).tcp(8080)
    beside = clients.to(bystanders).tcp(8080)
    expect.change(
        policy.filled(server=servers, action="Allow"),
        open=ways,
        because="the second tier allows everybody",
    )
    edited = policy.filled(server=servers, action="Deny")
    expect.change(
        edited, open=beside, closed=ways, because="its rule was edited and denies everybody now"
    )
    expect.removed(policy, because="without a policy everything is allowed")


@each_os("server_os")
@verifies("XPOL-13", part="new member, {server_os} server")
@manifest("policy/calico/guests_behind_a_tier.yaml")
def test_a_new_member_of_a_selector_behind_a_tier_gets_through(
    pods: WorkerPods, policy: Policy, relabel: Relabel, expect: Expect, server_os: OS
) -> None:
    guests = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers(server_os)
    bystanders = pods.servers(other(server_os))
    ways = guests.to(servers).tcp(8080)
    beside = guests.to(bystanders).tcp(8080)
    expect.change(
        policy.filled(server=servers),
        open=beside,
        closed=ways,
        because="nobody has the guests' label yet",
    )
    relabel.label_as_guest(*guests)
    expect.reachable(
        ways, because="the second tier's selector matches them since they have the label"
    )
