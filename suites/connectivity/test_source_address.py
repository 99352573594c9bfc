"""A server sees the pod's own address as its client, by TCP and by UDP: nothing is translated between pods."""

from conformance.fixtures import OS, Addresses, CalicoObjects, Expect, Pools, WorkerPods
from conformance.marks import directions, each_os, verifies

OPEN = "no policy is in force"
BECAUSE = "natOutgoing is for traffic that leaves the pools, and both addresses are in them"


@verifies("NAT-1", part="{client_os}->{server_os} source address")
@directions(across_nodes=True)
def test_no_address_is_translated_between_nodes(
    pods: WorkerPods, addresses: Addresses, expect: Expect, client_os: OS, server_os: OS
) -> None:
    pod_pairs = pods.clients(client_os).across(pods.servers(server_os))
    expect.control(pod_pairs.tcp_and_udp(8080), because=OPEN)
    expect.sources(pod_pairs.tcp(8080), are=addresses.of_pod, because=BECAUSE)
    expect.sources(pod_pairs.udp(8080), are=addresses.of_pod, because=BECAUSE)


@verifies("NAT-1", part="{os}->{os} source address, same node")
@each_os("os")
def test_no_address_is_translated_within_a_node(pods: WorkerPods, addresses: Addresses, expect: Expect, os: OS) -> None:
    pod_pairs = pods.clients(os).beside(pods.servers(os))
    expect.control(pod_pairs.tcp_and_udp(8080), because=OPEN)
    expect.sources(pod_pairs.tcp(8080), are=addresses.of_pod, because=BECAUSE)
    expect.sources(pod_pairs.udp(8080), are=addresses.of_pod, because=BECAUSE)


@verifies("NAT-1", part="pools")
def test_pods_of_every_pool_are_among_those_that_are_looked_at(
    pods: WorkerPods, calico: CalicoObjects, pools: Pools
) -> None:
    there = pods.ensure_ready("linux-client", "linux-server", "windows-client", "windows-server")
    because = "what was seen between these pods holds whichever pools pods are in"
    pools.are_all_used(calico.pool_cidrs(), by=there, because=because)
