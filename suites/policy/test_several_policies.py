"""Policies that select the same pod add up: what any of them admits enters, and nobody else, whichever API they are of.

A policy that does not say which directions it is about, and has no rule for egress, leaves egress alone.  Two policies
of one name in two namespaces have nothing to do with each other.
"""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import each_os, either_policy_api, manifest, needs, other, verifies

BECAUSE = "one policy admits the friends and one the other friends; none admits strangers, or is about what servers send"
NOW = "one policy admits the former strangers now, and the other one the friends; none admits the other friends"
STAYS = "the Kubernetes policy is gone, by which the strangers entered, and Calico's is left, which admits the friends"
LEFT = "the other friends' policy is gone, and that of the friends is left"
REMOVED = "without a policy everything is allowed"


@each_os("server_os")
@either_policy_api("ingress_by_two_policies")
@verifies("POL-1", part="{policy}: several policies, {server_os} server")
def test_whom_one_of_two_policies_admits_enters_for_as_long_as_it_is_there(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    servers = pods.servers(server_os)
    strangers = pods.servers(other(server_os))
    friends = pods.clients(server_os)
    other_friends = pods.clients(other(server_os))
    filled = policy.filled(server=servers, friend=friends, other_friend=other_friends)
    opened = [
        *friends.to(servers).tcp(8080),
        *(other_friends + strangers + servers).to(friends).tcp(8080),
    ]
    turns = other_friends.to(servers).tcp(8080)
    closed = strangers.to(servers).tcp(8080)
    expect.change(filled, open=[*opened, *turns], closed=closed, because=BECAUSE)
    expect.change(
        policy.without("other-friends-enter"), open=opened, closed=[*closed, *turns], because=LEFT
    )
    expect.removed(policy, because=REMOVED)


@each_os("server_os")
@verifies("POL-1", part="kubernetes and calico: several policies, {server_os} server")
@manifest("policy/several/of_both_apis.yaml")
@needs(calico_policy=True)
def test_whom_a_policy_of_either_api_admits_enters_once_it_is_edited_and_the_other_goes_too(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    servers = pods.servers(server_os)
    more = pods.servers(other(server_os))
    friends = pods.clients(server_os)
    others = pods.clients(other(server_os))
    shut = others.to(servers).tcp(8080)
    went = more.to(servers).tcp(8080)
    filled = policy.filled
    left = [*friends.to(servers).tcp(8080), *(others + more + servers).to(friends).tcp(8080)]
    first = filled(server=servers, friend=friends, other_friend=others)
    expect.base(first, open=left + shut, closed=went, because=BECAUSE)
    expect.change(
        filled(server=servers, friend=more, other_friend=friends),
        open=left + went,
        closed=shut,
        because=NOW,
    )
    expect.change(policy.without("friends-enter"), open=left, closed=shut + went, because=STAYS)


@each_os("server_os")
@verifies("POL-1", part="kubernetes: one name in two namespaces, {server_os} server")
@manifest("policy/kubernetes/ingress_by_selector.yaml")
def test_a_policy_holds_beside_one_of_its_name_in_another_namespace(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    servers = pods.servers(server_os)
    friends = pods.clients(server_os)
    bystanders = pods.servers(other(server_os))
    servers_there = pods.elsewhere(server_os)
    friends_there = pods.elsewhere(other(server_os))
    here = policy.filled(server=servers, friend=friends)
    there = policy.filled(into=pods.namespace_elsewhere, server=servers_there, friend=friends_there)
    opened = [
        *friends.to(servers + bystanders).tcp(8080),
        *friends_there.to(servers_there + bystanders).tcp(8080),
    ]
    closed = [*friends_there.to(servers).tcp(8080), *friends.to(servers_there).tcp(8080)]
    expect.change(
        here,
        there,
        open=opened,
        closed=closed,
        because="either policy admits its own namespace's friends",
    )
    expect.removed(policy, because=REMOVED)
