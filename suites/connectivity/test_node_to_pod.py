# SPDX-License-Identifier: Apache-2.0
"""A Linux node reaches pods by their addresses, on its own node and on others, and is seen as that node."""

from conformance.fixtures import OS, Addresses, Expect, Fragments, WorkerPods
from conformance.marks import about, each_os, verifies


@about("tcp")
@verifies("CONN-1", part="node to {server_os} pod")
@each_os("server_os")
def test_a_linux_node_reaches_a_pod(
    pods: WorkerPods, addresses: Addresses, expect: Expect, fragments: Fragments, server_os: OS
) -> None:
    ways = pods.nodes().to(pods.servers(server_os)).tcp(8080)
    because = "a node talks to pods under its own address, or under that of its overlay device"
    expect.sources(ways, are=addresses.of_node, because=because)
    fragments.arrive(
        ways, because="a node fills packets to pods as far as both ends say that they may"
    )


@about("udp")
@verifies("CONN-1", part="node to {server_os} pod, UDP", provisional=True)
@each_os("server_os")
def test_datagrams_of_a_linux_node_reach_a_pod_and_come_back(
    pods: WorkerPods, addresses: Addresses, expect: Expect, server_os: OS
) -> None:
    ways = pods.nodes().to(pods.servers(server_os)).udp(8080)
    because = "a node talks to pods under its own address, or under that of its overlay device, by UDP as by TCP"
    expect.sources(ways, are=addresses.of_node, because=because)
