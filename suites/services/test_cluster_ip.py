# SPDX-License-Identifier: Apache-2.0
"""Services are reached by ClusterIP, from pods in all four directions and from Linux nodes."""

from conformance.fixtures import OS, Addresses, Expect, Services, WorkerPods
from conformance.marks import about, directions, manifest, verifies

pytestmark = [manifest("services/cluster-ip.yaml")]

BECAUSE = "kube-proxy of the client's node sends it on to the backend"


@about("clusterip", "tcp")
@verifies("CONN-4", part="{client_os}->{server_os} cluster-ip")
@directions()
def test_pods_reach_a_service_by_cluster_ip(
    pods: WorkerPods,
    services: Services,
    addresses: Addresses,
    expect: Expect,
    *,
    client_os: OS,
    server_os: OS,
) -> None:
    pod_pairs = pods.clients(client_os).to(pods.servers(server_os))
    ways = [*pod_pairs.through(services.by_address), *pod_pairs.through(services.by_other_port)]
    expect.sources(ways, are=addresses.behind, because=BECAUSE)


@about("clusterip", "udp")
@verifies("CONN-4", part="{client_os}->{server_os} cluster-ip, UDP")
@directions()
def test_datagrams_reach_a_service_by_cluster_ip(
    pods: WorkerPods,
    services: Services,
    addresses: Addresses,
    expect: Expect,
    *,
    client_os: OS,
    server_os: OS,
) -> None:
    ways = pods.clients(client_os).to(pods.servers(server_os)).through(services.by_address_udp)
    expect.sources(ways, are=addresses.behind, because=BECAUSE)


@about("clusterip")
@verifies("CONN-5")
def test_a_linux_node_reaches_windows_backends(
    pods: WorkerPods, services: Services, addresses: Addresses, expect: Expect
) -> None:
    pod_pairs = pods.nodes().to(pods.servers("windows"))
    ways = [*pod_pairs.through(services.by_address), *pod_pairs.through(services.by_address_udp)]
    expect.sources(ways, are=addresses.of_node, because=BECAUSE)
