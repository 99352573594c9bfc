"""A rule's selector finds pods that come after the policy: who comes with its label enters, who comes without does not.

New pods come to nodes whose older pods the policy was seen to keep out.
"""

from conformance.fixtures import OS, Expect, Newcomers, Policy, WorkerPods
from conformance.marks import each_os, manifest, other, verifies

pytestmark = [manifest("policy/members/guests.yaml")]


@each_os("server_os")
@verifies("POL-1", part="kubernetes: new member, {server_os} server")
@verifies("XPOL-15", part="new member, {server_os} server")
def test_a_new_pod_enters_if_it_comes_with_the_admitted_label(
    pods: WorkerPods, policy: Policy, newcomers: Newcomers, expect: Expect, server_os: OS
) -> None:
    clients = pods.clients(other(server_os))
    servers = pods.servers(server_os)
    beside = pods.servers(other(server_os))
    closed = clients.to(servers).tcp(8080)
    opened = clients.to(beside).tcp(8080)
    expect.change(
        policy.filled(server=servers),
        open=opened,
        closed=closed,
        because="nobody has the guests' label yet",
    )
    guests, strangers = newcomers.beside(clients)
    expect.control((guests + strangers).to(beside).tcp(8080), because="the new pods have a network")
    closed = strangers.to(servers).tcp(8080)
    opened = [*guests.to(servers).tcp(8080), *strangers.to(beside).tcp(8080)]
    expect.matrix(
        open=opened,
        closed=closed,
        new=guests + strangers,
        because="only the guests came with their label",
    )
    expect.removed(policy, because="without a policy everything is allowed")
