"""A server sees the pod's own address as its client: nothing is translated between pods."""

from conformance.marks import directions, each_os, verifies

BECAUSE = "natOutgoing is for traffic that leaves the pools, and both addresses are in them"


@verifies("NAT-1", part="{client_os}->{server_os} source address")
@directions(across_nodes=True)
def test_no_address_is_translated_between_nodes(pods, expect, client_os, server_os):
    client, server = pods.pair(client_os, server_os)
    expect.control(client, server.tcp(8080), because="no policy is in force")
    expect.source_is(client, server.tcp(8080), client.address, because=BECAUSE)


@verifies("NAT-1", part="{os}->{os} source address, same node")
@each_os("os")
def test_no_address_is_translated_within_a_node(pods, expect, os):
    client, server = pods.pair(os, os, same_node=True)
    expect.control(client, server.tcp(8080), because="no policy is in force")
    expect.source_is(client, server.tcp(8080), client.address, because=BECAUSE)
