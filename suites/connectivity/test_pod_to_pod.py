# SPDX-License-Identifier: Apache-2.0
"""Pods reach each other by their addresses, within each node and between nodes, in all four
directions.
"""

from conformance.fixtures import OS, Case, Expect, Fragments, WorkerPods
from conformance.marks import about, directions, each_os, smoke, verifies

ACROSS = "no policy is in force, and nodes have a route to each block"
WITHIN = "no policy is in force, and both pods are on one node"
FILLED = "the node's own system forwards traffic within the node, whatever the packets' size"


@about("tcp")
@smoke()
@verifies("CONN-3", part="{client_os}->{server_os} pod-ip")
@directions(across_nodes=True)
def test_pods_of_different_nodes_reach_each_other(
    pods: WorkerPods, expect: Expect, client_os: OS, server_os: OS
) -> None:
    clients = pods.clients(client_os)
    servers = pods.servers(server_os)
    expect.matrix(
        Case(clients, servers, on="other nodes", tcp=8080, open=True, because=ACROSS),
        Case(clients, servers, on="other nodes", tcp=45000, open=True, because=ACROSS),
    )


@about("udp")
@verifies("CONN-3", part="{client_os}->{server_os} pod-ip, UDP")
@directions(across_nodes=True)
def test_datagrams_pass_between_nodes_and_back(
    pods: WorkerPods, expect: Expect, client_os: OS, server_os: OS
) -> None:
    clients = pods.clients(client_os)
    servers = pods.servers(server_os)
    expect.matrix(
        Case(clients, servers, on="other nodes", udp=8080, open=True, because=ACROSS),
        Case(clients, servers, on="other nodes", udp=45000, open=True, because=ACROSS),
    )


@about("tcp")
@verifies("CONN-2", part="{os}->{os} same node")
@each_os("os")
def test_pods_of_one_node_reach_each_other(
    pods: WorkerPods, expect: Expect, fragments: Fragments, os: OS
) -> None:
    clients = pods.clients(os)
    servers = pods.servers(os)
    expect.matrix(
        Case(clients, servers, on="same node", tcp=8080, open=True, because=WITHIN),
        Case(clients, servers, on="same node", tcp=45000, open=True, because=WITHIN),
    )
    fragments.arrive(Case(clients, servers, on="same node", tcp=8080, open=True, because=FILLED))


@about("udp")
@verifies("CONN-2", part="{os}->{os} same node, UDP")
@each_os("os")
def test_datagrams_pass_within_a_node_and_back(
    pods: WorkerPods, expect: Expect, fragments: Fragments, os: OS
) -> None:
    clients = pods.clients(os)
    servers = pods.servers(os)
    expect.matrix(
        Case(clients, servers, on="same node", udp=8080, open=True, because=WITHIN),
        Case(clients, servers, on="same node", udp=45000, open=True, because=WITHIN),
    )
    fragments.arrive(Case(clients, servers, on="same node", udp=8080, open=True, because=FILLED))
