"""Selectors follow labels that come and go, of pods and of namespaces: those of a rule and of the policy itself."""

from conformance.fixtures import OS, Expect, Policy, Relabel, WorkerPods
from conformance.marks import each_os, manifest, other, verifies


@each_os("server_os")
@manifest("policy/members/guests.yaml")
@verifies("POL-1", part="kubernetes: followed labels, {server_os} server")
@verifies("XPOL-15", part="followed labels, {server_os} server")
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


@each_os("server_os")
@manifest("policy/members/closed_guests.yaml")
@verifies("POL-1", part="kubernetes: followed labels of the selected, {server_os} server")
def test_a_policy_is_about_a_pod_for_as_long_as_it_has_the_label(
    pods: WorkerPods, policy: Policy, relabel: Relabel, expect: Expect, server_os: OS
) -> None:
    clients, servers = pods.clients("linux") + pods.clients("windows"), pods.servers(server_os)
    ways, beside = clients.to(servers).tcp(8080), clients.to(pods.servers(other(server_os))).tcp(8080)
    expect.change(policy, open=[*ways, *beside], because="no pod has the selected label yet")
    relabel.label_as_guest(*servers)
    expect.matrix(open=beside, closed=ways, because="the servers have the label, and the policy admits nobody")
    relabel.undo()
    expect.matrix(open=[*ways, *beside], because="no pod has the selected label any more")
