# SPDX-License-Identifier: Apache-2.0
"""A server sees the pod's own address as its client, by TCP and by UDP: nothing is translated between pods."""

from conformance.fixtures import OS, Addresses, CalicoObjects, Expect, PoolClients, WorkerPods
from conformance.marks import directions, each_os, verifies

OPEN = "no policy is in force"
BECAUSE = "natOutgoing is for traffic that leaves the pools, and both addresses are in them"


@verifies("NAT-1", part="{client_os}->{server_os} source address")
@directions(across_nodes=True)
def test_no_address_is_translated_between_nodes(
    pods: WorkerPods, addresses: Addresses, expect: Expect, client_os: OS, server_os: OS
) -> None:
    pod_pairs = pods.clients(client_os).across(pods.servers(server_os))
    ways = [*pod_pairs.tcp_and_udp(8080), *pod_pairs.tcp_and_udp(45000)]
    expect.control(ways, because=OPEN)
    expect.sources(ways, are=addresses.of_pod, because=BECAUSE, control=True)


@verifies("NAT-1", part="{os}->{os} source address, same node")
@each_os("os")
def test_no_address_is_translated_within_a_node(
    pods: WorkerPods, addresses: Addresses, expect: Expect, os: OS
) -> None:
    pod_pairs = pods.clients(os).beside(pods.servers(os))
    ways = [*pod_pairs.tcp_and_udp(8080), *pod_pairs.tcp_and_udp(45000)]
    expect.control(ways, because=OPEN)
    expect.sources(ways, are=addresses.of_pod, because=BECAUSE, control=True)


@verifies("NAT-1", part="pools", provisional=True)
def test_no_address_is_translated_between_pools(
    pods: WorkerPods,
    pool_clients: PoolClients,
    calico: CalicoObjects,
    addresses: Addresses,
    expect: Expect,
) -> None:
    linux = pool_clients.of(calico.pool_cidrs(), anywhere=calico.pool_cidrs(anywhere=True))
    there = linux.to(pods.servers("windows"))
    back = pods.clients("windows").to(linux)
    pairs = there.tcp_and_udp(8080) + back.tcp_and_udp(8080)
    expect.control(pairs, because=OPEN)
    expect.sources(pairs, are=addresses.of_pod, because=BECAUSE, control=True)


@verifies("NAT-1", part="the demo's port", provisional=True)
def test_no_address_is_translated_at_the_demos_port(
    pods: WorkerPods, addresses: Addresses, expect: Expect
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    ways = clients.across(pods.servers("windows")).tcp(80)
    expect.control(ways, because=OPEN)
    expect.sources(ways, are=addresses.of_pod, because=BECAUSE, control=True)
