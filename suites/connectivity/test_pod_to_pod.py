"""Pods reach each other by their addresses, within a node and between nodes, in all four directions."""

from conformance.marks import directions, each_os, verifies


@verifies("CONN-3", part="{client_os}->{server_os} pod-ip")
@directions(across_nodes=True)
def test_pods_of_different_nodes_reach_each_other(pods, expect, client_os, server_os):
    client, server = pods.pair(client_os, server_os)
    expect.reachable(client, server.tcp(8080), because="no policy is in force, and nodes know the way to each block")


@verifies("CONN-3", part="{client_os}->{server_os} pod-ip, UDP")
@directions(across_nodes=True)
def test_datagrams_pass_between_nodes_and_back(pods, expect, client_os, server_os):
    client, server = pods.pair(client_os, server_os)
    expect.reachable(client, server.udp(8080), because="no policy is in force, and nodes know the way to each block")


@verifies("CONN-2", part="{os}->{os} same node")
@each_os("os")
def test_pods_of_one_node_reach_each_other(pods, expect, os):
    client, server = pods.pair(os, os, same_node=True)
    expect.reachable(client, server.tcp(8080), because="no policy is in force, and both are on one node")


@verifies("CONN-2", part="{os}->{os} same node, UDP")
@each_os("os")
def test_datagrams_pass_within_a_node_and_back(pods, expect, os):
    client, server = pods.pair(os, os, same_node=True)
    expect.reachable(client, server.udp(8080), because="no policy is in force, and both are on one node")
