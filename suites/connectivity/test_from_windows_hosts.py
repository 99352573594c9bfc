# SPDX-License-Identifier: Apache-2.0
"""According to documents a Windows host itself reaches neither pods of other nodes, nor
ClusterIPs, nor (before KB4571748) NodePorts on its own address. A program in a HostProcess pod
connects from the host, and exchanges only the TCP handshake."""

from conformance.fixtures import HostAttempts, Services, WorkerPods
from conformance.marks import needs, verifies

OVERLAY = "a Windows host has no path through the overlay to pods of other nodes"
CLUSTER_IP = "kube-proxy translates packets from pods, but not packets from the host itself"
NODE_PORT = "before KB4571748, a Windows host cannot reach NodePorts on its own address"


@verifies("HOST-1")
@needs(host_process=True)
def test_a_windows_host_does_not_reach_pods_of_other_nodes(
    pods: WorkerPods, services: Services, host_attempts: HostAttempts
) -> None:
    neighbours = pods.clients("windows")
    server = pods.server("linux")
    goals = neighbours.to([server]).tcp(8080)
    control = services.by_node_port(server)
    host_attempts.limited(goals, witness=goals, control=control, because=OVERLAY)


@verifies("HOST-2")
@needs(host_process=True)
def test_a_windows_host_does_not_reach_cluster_ips(
    pods: WorkerPods, services: Services, host_attempts: HostAttempts
) -> None:
    neighbours = pods.clients("windows")
    server = pods.server("linux")
    goals = neighbours.to([server]).through(services.by_address)
    control = services.by_node_port(server)
    host_attempts.limited(goals, witness=goals, control=control, because=CLUSTER_IP)


@verifies("HOST-3")
@needs(host_process=True)
def test_a_windows_host_does_not_reach_node_ports_on_its_own_address(
    pods: WorkerPods, services: Services, host_attempts: HostAttempts
) -> None:
    servers = pods.servers("windows")
    goals = servers.itself(servers).through(services.by_node_port)
    witness = pods.nodes().to(servers).through(services.by_node_port)
    control = services.by_node_port(pods.server("linux"))
    host_attempts.limited(goals, witness=witness, control=control, because=NODE_PORT)
