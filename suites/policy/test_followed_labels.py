"""Selectors follow labels that come and go, of pods and of namespaces: those of a rule and of the policy itself.

Labels that were there before, and went, come again: what is forgotten once must not be forgotten for good.
"""

from conformance.fixtures import OS, Expect, Policy, Relabel, RelabelNamespaces, WorkerPods
from conformance.marks import each_os, manifest, other, verifies

GUESTS = "these pods, or their namespace, have the guests' label"


@each_os("server_os")
@manifest("policy/members/guests.yaml")
@verifies("POL-1", part="kubernetes: followed labels, {server_os} server")
@verifies("XPOL-15", part="followed labels, {server_os} server")
def test_a_rule_follows_labels_that_go_and_come(
    pods: WorkerPods,
    policy: Policy,
    relabel_namespaces: RelabelNamespaces,
    expect: Expect,
    server_os: OS,
) -> None:
    guests = pods.clients(server_os)
    at_home = pods.elsewhere(other(server_os))
    far = pods.servers(other(server_os))
    ways = (guests + at_home).to(pods.servers(server_os)).tcp(8080)
    beside = (guests + at_home).to(far).tcp(8080)
    relabel_namespaces.invite(*guests, all_of=at_home)
    expect.change(
        policy.filled(server=pods.servers(server_os)),
        open=[*beside, *ways],
        because=f"{GUESTS} now",
    )
    relabel_namespaces.undo()
    expect.matrix(open=beside, closed=ways, because="nobody has the guests' label any more")
    relabel_namespaces.invite(*guests, all_of=at_home)
    expect.reachable(ways, because=f"{GUESTS} again")


@each_os("server_os")
@manifest("policy/members/closed_guests.yaml")
@verifies("POL-1", part="kubernetes: followed labels of the selected, {server_os} server")
def test_a_policy_is_about_a_pod_for_as_long_as_it_has_the_label(
    pods: WorkerPods, policy: Policy, relabel: Relabel, expect: Expect, server_os: OS
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers(server_os)
    ways = clients.to(servers).tcp(8080)
    beside = clients.to(pods.servers(other(server_os))).tcp(8080)
    relabel.label_as_guest(*servers)
    expect.base(
        policy,
        open=beside,
        closed=ways,
        because="the servers have the label, and the policy admits nobody",
    )
    relabel.undo()
    expect.reachable([*ways, *beside], because="no pod has the selected label any more")
    relabel.label_as_guest(*servers)
    expect.matrix(open=beside, closed=ways, because="the servers have the label again")
