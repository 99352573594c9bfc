# SPDX-License-Identifier: Apache-2.0
"""Services are reached by ClusterIP, from pods in all four directions and from Linux nodes."""

from conformance.fixtures import OS, Addresses, Case, Expect, Services, WorkerPods
from conformance.marks import about, directions, manifest, verifies

pytestmark = [manifest("services/cluster-ip.yaml")]

BECAUSE = "kube-proxy of the client's node forwards this traffic to the backend"


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
    clients = pods.clients(client_os)
    servers = pods.servers(server_os)
    expect.sources(
        Case(clients, servers, through=services.by_address, open=True, because=BECAUSE),
        Case(clients, servers, through=services.by_other_port, open=True, because=BECAUSE),
        are=addresses.behind,
    )


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
    clients = pods.clients(client_os)
    servers = pods.servers(server_os)
    expect.sources(
        Case(clients, servers, through=services.by_address_udp, open=True, because=BECAUSE),
        are=addresses.behind,
    )


@about("clusterip")
@verifies("CONN-5")
def test_a_linux_node_reaches_windows_backends(
    pods: WorkerPods, services: Services, addresses: Addresses, expect: Expect
) -> None:
    nodes = pods.nodes()
    servers = pods.servers("windows")
    expect.sources(
        Case(nodes, servers, through=services.by_address, open=True, because=BECAUSE),
        Case(nodes, servers, through=services.by_address_udp, open=True, because=BECAUSE),
        are=addresses.of_node,
    )
