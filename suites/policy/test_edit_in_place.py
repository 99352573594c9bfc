"""Editing the rules of a policy, and nothing else of it, is enforced at pods that run already."""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import each_os, manifest, needs, other, verifies


@each_os("server_os")
@needs(calico_policy=True)
@manifest("policy/calico/edited_in_place.yaml")
@verifies("XPOL-12", part="{server_os} server")
def test_an_edited_rule_is_enforced(
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
        because="the one rule allows everybody",
    )
    edited = policy.filled(server=servers, action="Deny")
    expect.change(
        edited,
        open=beside,
        closed=ways,
        because="the same rule was edited and denies everybody now",
    )
    expect.removed(policy, because="without a policy everything is allowed")


@each_os("server_os")
@manifest("policy/kubernetes/ingress_by_selector.yaml")
@verifies("POL-1", part="kubernetes: edited rule, {server_os} server")
def test_whom_an_edited_rule_admits_enters_and_whom_it_admitted_does_no_more(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    servers = pods.servers(server_os)
    bystanders = pods.servers(other(server_os))
    first = pods.clients(server_os)
    second = pods.clients(other(server_os))
    opened = [*first.to(servers).tcp(8080), *second.to(bystanders).tcp(8080)]
    closed = second.to(servers).tcp(8080)
    filled = policy.filled(server=servers, friend=first)
    edited = policy.filled(server=servers, friend=second)
    expect.base(
        filled, open=opened, closed=closed, because="the one rule allows the first clients' label"
    )
    opened = [*second.to(servers).tcp(8080), *first.to(bystanders).tcp(8080)]
    closed = first.to(servers).tcp(8080)
    expect.change(
        edited,
        open=opened,
        closed=closed,
        because="the same rule allows the second clients' label now",
    )
    expect.removed(policy, because="without a policy everything is allowed")
