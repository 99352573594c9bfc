# SPDX-License-Identifier: Apache-2.0
"""Pods reach each other by their addresses, within each node and between nodes, in all four directions."""

from conformance.fixtures import OS, Expect, Fragments, WorkerPods
from conformance.marks import about, directions, each_os, smoke, verifies

ACROSS = "no policy is in force, and nodes know the way to each block"
WITHIN = "no policy is in force, and both are on one node"
FILLED = "what is on one node is handed on by its own system, whatever its size"


@about("tcp")
@smoke()
@verifies("CONN-3", part="{client_os}->{server_os} pod-ip")
@directions(across_nodes=True)
def test_pods_of_different_nodes_reach_each_other(
    pods: WorkerPods, expect: Expect, client_os: OS, server_os: OS
) -> None:
    pod_pairs = pods.clients(client_os).across(pods.servers(server_os))
    expect.reachable([*pod_pairs.tcp(8080), *pod_pairs.tcp(45000)], because=ACROSS)


@about("udp")
@verifies("CONN-3", part="{client_os}->{server_os} pod-ip, UDP")
@directions(across_nodes=True)
def test_datagrams_pass_between_nodes_and_back(
    pods: WorkerPods, expect: Expect, client_os: OS, server_os: OS
) -> None:
    pod_pairs = pods.clients(client_os).across(pods.servers(server_os))
    expect.reachable([*pod_pairs.udp(8080), *pod_pairs.udp(45000)], because=ACROSS)


@about("tcp")
@verifies("CONN-2", part="{os}->{os} same node")
@each_os("os")
def test_pods_of_one_node_reach_each_other(
    pods: WorkerPods, expect: Expect, fragments: Fragments, os: OS
) -> None:
    pod_pairs = pods.clients(os).beside(pods.servers(os))
    expect.reachable([*pod_pairs.tcp(8080), *pod_pairs.tcp(45000)], because=WITHIN)
    fragments.arrive(pod_pairs.tcp(8080), because=FILLED)


@about("udp")
@verifies("CONN-2", part="{os}->{os} same node, UDP")
@each_os("os")
def test_datagrams_pass_within_a_node_and_back(
    pods: WorkerPods, expect: Expect, fragments: Fragments, os: OS
) -> None:
    pod_pairs = pods.clients(os).beside(pods.servers(os))
    expect.reachable([*pod_pairs.udp(8080), *pod_pairs.udp(45000)], because=WITHIN)
    fragments.arrive(pod_pairs.udp(8080), because=FILLED)
