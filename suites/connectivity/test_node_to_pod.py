# SPDX-License-Identifier: Apache-2.0
"""A Linux node reaches pods by their addresses, on its own node and on others, with its own address
as the source."""

from conformance.fixtures import OS, Addresses, Case, Expect, Fragments, WorkerPods
from conformance.marks import about, each_os, verifies

OWN = "a node connects to pods from its own address or from the address of its overlay device"
FILLED = "a node sends pods packets of the largest size that both ends announce"


@about("tcp")
@verifies("CONN-1", part="node to {server_os} pod")
@each_os("server_os")
def test_a_linux_node_reaches_a_pod(
    pods: WorkerPods, addresses: Addresses, expect: Expect, fragments: Fragments, server_os: OS
) -> None:
    nodes = pods.nodes()
    servers = pods.servers(server_os)
    expect.sources(Case(nodes, servers, tcp=8080, open=True, because=OWN), are=addresses.of_node)
    fragments.arrive(Case(nodes, servers, tcp=8080, open=True, because=FILLED))


@about("udp")
@verifies("CONN-1", part="node to {server_os} pod, UDP", provisional=True)
@each_os("server_os")
def test_datagrams_of_a_linux_node_reach_a_pod_and_come_back(
    pods: WorkerPods, addresses: Addresses, expect: Expect, server_os: OS
) -> None:
    nodes = pods.nodes()
    servers = pods.servers(server_os)
    expect.sources(Case(nodes, servers, udp=8080, open=True, because=OWN), are=addresses.of_node)
