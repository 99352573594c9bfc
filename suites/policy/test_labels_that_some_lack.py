"""Whom and what a rule means where pods differ: what lacks a label differs from every value, an account is one of the
policy's own namespace, and a port's name is of each Linux pod the number that it calls so.

Each is about ports of its own of the same servers, so that all are asked about under one change.
"""

from conformance.fixtures import Expect, Paths, Policy, Relabel, Sides, WorkerPods
from conformance.marks import about, manifest, needs, verifies

LACKING = "a label that some pods lack"
CALLED = "ingress by a port's name of two numbers, linux servers"
ACCOUNT = "calico: accounts of one name in two namespaces"
MEANT = "what lacks a label has another, accounts are of the own namespace, and names of ports of each pod"


@about("tcp", "udp")
@manifest("policy/members/all_but_guests.kubernetes.yaml")
@verifies("POL-1", part=f"kubernetes: {LACKING}", provisional=True)
@verifies("POL-1", part=f"kubernetes: {CALLED}", provisional=True)
def test_who_lacks_the_label_differs_from_who_has_it_and_a_name_is_each_pods_own_port(
    pods: WorkerPods, policy: Policy, sides: Sides, relabel: Relabel, expect: Expect
) -> None:
    guests = sides.strangers
    friends = sides.friends.to(sides.servers)
    eights = guests.to(pods.clients("linux"))
    linux = guests.to(sides.at("linux"))
    relabel.label_as_guest(*guests)
    label = Paths(open=friends.tcp_and_udp(8081), closed=guests.to(sides.servers).tcp_and_udp(8081))
    named = Paths(
        open=[*eights.tcp(8080), *linux.tcp(80)], closed=[*linux.tcp(8080), *eights.udp(8080)]
    )
    expect.changes(
        policy,
        parts={f"kubernetes: {LACKING}": label, f"kubernetes: {CALLED}": named},
        because=MEANT,
    )
    expect.removed(policy, because="without a policy everything is allowed")


@about("tcp", "udp")
@needs(calico_policy=True)
@manifest("policy/members/all_but_guests.yaml")
@verifies("POL-1", part=f"calico: {LACKING}", provisional=True)
@verifies("POL-1", part=f"calico: {CALLED}", provisional=True)
@verifies("POL-1", part=ACCOUNT, provisional=True)
def test_who_lacks_the_label_differs_by_calico_too_and_an_account_of_another_namespace_is_another(
    pods: WorkerPods, policy: Policy, sides: Sides, relabel: Relabel, expect: Expect
) -> None:
    guests = sides.strangers
    friends = sides.friends.to(sides.servers)
    away = pods.elsewhere("windows")
    eights = (guests + away).to(pods.clients("linux"))
    linux = guests.to(sides.at("linux"))
    relabel.label_as_guest(*guests)
    label = Paths(open=friends.tcp_and_udp(8081), closed=guests.to(sides.servers).tcp_and_udp(8081))
    named = Paths(
        open=[*eights.tcp(8080), *linux.tcp(80)], closed=[*linux.tcp(8080), *eights.udp(8080)]
    )
    own = Paths(open=friends.tcp_and_udp(8082), closed=away.to(sides.servers).tcp_and_udp(8082))
    expect.changes(
        policy,
        parts={f"calico: {LACKING}": label, f"calico: {CALLED}": named, ACCOUNT: own},
        because=MEANT,
    )
    expect.removed(policy, because="without a policy everything is allowed")
