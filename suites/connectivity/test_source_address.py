# SPDX-License-Identifier: Apache-2.0
"""A server receives the pod's own address as its client, by TCP and by UDP: nothing is translated
between pods."""

from conformance.fixtures import OS, Addresses, CalicoObjects, Case, Expect, PoolClients, WorkerPods
from conformance.marks import directions, each_os, verifies

BETWEEN_PODS = (
    "outbound NAT excludes traffic to pods, whose networks are in Calico's pools or in the CNI "
    "plugin's file"
)
IN_THE_POOLS = (
    "natOutgoing translates only traffic that leaves the pools, and both addresses are in the pools"
)


@verifies("NAT-1", part="{client_os}->{server_os} source address")
@directions(across_nodes=True)
def test_no_address_is_translated_between_nodes(
    pods: WorkerPods, addresses: Addresses, expect: Expect, client_os: OS, server_os: OS
) -> None:
    clients = pods.clients(client_os)
    servers = pods.servers(server_os)
    cases = [
        Case(
            clients, servers, on="other nodes", tcp=8080, udp=8080, open=True, because=BETWEEN_PODS
        ),
        Case(
            clients,
            servers,
            on="other nodes",
            tcp=45000,
            udp=45000,
            open=True,
            because=BETWEEN_PODS,
        ),
    ]
    expect.controls(*cases)
    expect.sources(*cases, are=addresses.of_pod, control=True)


@verifies("NAT-1", part="{os}->{os} source address, same node")
@each_os("os")
def test_no_address_is_translated_within_a_node(
    pods: WorkerPods, addresses: Addresses, expect: Expect, os: OS
) -> None:
    clients = pods.clients(os)
    servers = pods.servers(os)
    cases = [
        Case(clients, servers, on="same node", tcp=8080, udp=8080, open=True, because=BETWEEN_PODS),
        Case(
            clients, servers, on="same node", tcp=45000, udp=45000, open=True, because=BETWEEN_PODS
        ),
    ]
    expect.controls(*cases)
    expect.sources(*cases, are=addresses.of_pod, control=True)


@verifies("NAT-1", part="pools", provisional=True)
def test_no_address_is_translated_between_pools(
    pods: WorkerPods,
    pool_clients: PoolClients,
    calico: CalicoObjects,
    addresses: Addresses,
    expect: Expect,
) -> None:
    linux = pool_clients.of(calico.pool_cidrs(), anywhere=calico.pool_cidrs(anywhere=True))
    clients = pods.clients("windows")
    servers = pods.servers("windows")
    cases = [
        Case(linux, servers, tcp=8080, udp=8080, open=True, because=IN_THE_POOLS),
        Case(clients, linux, tcp=8080, udp=8080, open=True, because=IN_THE_POOLS),
    ]
    expect.controls(*cases)
    expect.sources(*cases, are=addresses.of_pod, control=True)


@verifies("NAT-1", part="the demo's port", provisional=True)
def test_no_address_is_translated_at_the_demos_port(
    pods: WorkerPods, addresses: Addresses, expect: Expect
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers("windows")
    case = Case(clients, servers, on="other nodes", tcp=80, open=True, because=BETWEEN_PODS)
    expect.controls(case)
    expect.sources(case, are=addresses.of_pod, control=True)
