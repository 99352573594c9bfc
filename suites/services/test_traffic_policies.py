# SPDX-License-Identifier: Apache-2.0
"""Services whose traffic policy is ``Local`` lead only to backends of one node: the client's own
node, or the node whose NodePort is called."""

from conformance.fixtures import (
    OS,
    Addresses,
    Backends,
    Case,
    Expect,
    Services,
    WindowsNodes,
    WorkerPods,
)
from conformance.marks import about, each_os, manifest, verifies

OWN = "internalTrafficPolicy Local leads only to backends on the client's own node"
NOBODY = "internalTrafficPolicy Local leads nowhere from a node without a backend"
ANYWHERE = "externalTrafficPolicy Local does not apply to clients that connect to the ClusterIP"
KEPT = (
    "externalTrafficPolicy Local keeps the client's address, and leads only to backends on the "
    "called node"
)
NOWHERE = "externalTrafficPolicy Local leads nowhere from a node without a backend"


@about("clusterip")
@each_os("server_os")
@manifest("services/internal-local.yaml")
@verifies("XSVC-6", part="{server_os} backends")
def test_clients_get_to_backends_of_their_own_node_alone(
    pods: WorkerPods, services: Services, backends: Backends, server_os: OS
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    front = services.over(pods.servers(server_os), "internal-local").by_address
    backends.own_node_used(clients, front, because=OWN, nobody=NOBODY)


@about("clusterip")
@each_os("server_os")
@manifest("services/external-local.yaml")
@verifies("XSVC-7", part="ClusterIP, {server_os} backends")
def test_clients_of_every_node_get_to_all_backends_by_cluster_ip(
    pods: WorkerPods, services: Services, backends: Backends, server_os: OS
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    front = services.over(pods.servers(server_os), "external-local").by_address
    backends.all_used(clients, front, because=ANYWHERE)


@manifest("services/external-local.yaml")
@verifies("XSVC-7", part="NodePort, linux backends")
def test_a_linux_node_port_leads_to_that_node_alone(
    pods: WorkerPods, services: Services, addresses: Addresses, backends: Backends, expect: Expect
) -> None:
    nodes = pods.nodes()
    servers = pods.servers("linux")
    front = services.over(servers, "external-local")
    expect.sources(
        Case(nodes, servers, through=front.at_own_node, on="other nodes", open=True, because=KEPT),
        are=addresses.of_node,
    )
    windows = services.over(pods.servers("windows"), "external-local")
    backends.lead_nowhere(nodes.across(servers).through(windows.on), because=NOWHERE)


@manifest("services/external-local.yaml")
@verifies("XSVC-7", part="NodePort, windows backends", applies={"dsr": True})
def test_a_windows_node_port_leads_to_that_node_alone(
    *,
    pods: WorkerPods,
    services: Services,
    windows_nodes: WindowsNodes,
    addresses: Addresses,
    backends: Backends,
    expect: Expect,
) -> None:
    nodes = pods.nodes()
    servers = pods.servers("windows").at(*windows_nodes.with_dsr())
    front = services.over(servers, "external-local")
    expect.sources(
        Case(nodes, servers, through=front.at_own_node, open=True, because=KEPT),
        are=addresses.of_node,
    )
    linux = services.over(pods.servers("linux"), "external-local")
    backends.lead_nowhere(nodes.to(servers).through(linux.on), because=NOWHERE)
