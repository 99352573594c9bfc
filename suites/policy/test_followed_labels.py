"""What a rule selects follows labels of pods and of namespaces: who gets one enters, and who loses it does no more."""

from conformance.fixtures import OS, Expect, Policy, Relabel, WorkerPods
from conformance.marks import each_os, manifest, other, verifies

pytestmark = [manifest("policy/members/guests.yaml")]


@each_os("server_os")
@verifies("POL-1", part="kubernetes: followed labels, {server_os} server")
def test_a_rule_follows_labels_that_come_and_go(
    pods: WorkerPods, policy: Policy, relabel: Relabel, expect: Expect, server_os: OS
) -> None:
    guests, at_home = pods.clients(server_os), pods.elsewhere(other(server_os))
    servers, bystanders = pods.servers(server_os), pods.servers(other(server_os))
    ways, beside = (guests + at_home).to(servers).tcp(8080), (guests + at_home).to(bystanders).tcp(8080)
    expect.change(policy.filled(server=servers), open=beside, closed=ways, because="nobody has the guests' label yet")
    relabel.invite(*guests, all_of=at_home)
    expect.reachable(ways, because="these pods, or their namespace, have the guests' label since then")
    relabel.undo()
    expect.matrix(open=beside, closed=ways, because="nobody has the guests' label any more")
