"""Egress rules with an address, a protocol and a port open that port there, and nothing else, there or elsewhere."""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import about, each_os, either_policy_api, other, verifies

pytestmark = [verifies("POL-1", part="{policy}: egress by address and port, {client_os} client")]


@about("tcp", "udp")
@each_os("client_os")
@either_policy_api("egress_by_address_and_port")
def test_only_the_allowed_port_of_each_address_is_reached(
    pods: WorkerPods, policy: Policy, expect: Expect, client_os: OS
) -> None:
    clients = pods.clients(client_os)
    bystanders = pods.clients(other(client_os))
    streams = pods.servers("linux")
    datagrams = pods.servers("windows")
    opened = [
        *clients.to(streams).tcp(8080),
        *clients.to(datagrams).udp(8080),
        *bystanders.to(datagrams).tcp(8080),
    ]
    closed = [
        *clients.to(streams).tcp(80),
        *clients.to(streams).udp(8080),
        *clients.to(datagrams).tcp(8080),
    ]
    because = "a rule's address, protocol and port all have to match: each server listens on what the other is allowed"
    filled = policy.filled(client=clients, server=streams, bystander=datagrams)
    expect.change(filled, open=opened, closed=closed, because=because)
    expect.removed(policy, because="without a policy everything is allowed")
