# SPDX-License-Identifier: Apache-2.0
"""Without an overlay, what comes with the address of a backend's own node is let in, whatever policies say."""

from conformance.fixtures import Expect, OwnNode, Policy, Services, WindowsNodes, WorkerPods
from conformance.marks import manifest, verifies

pytestmark = [manifest("policy/services/only-the-client.yaml")]

PORT = 8080
OPEN = "no policy is in force yet"
UNGUARDED = "kube-proxy gives it the address of the backend's node, which Felix lets into its pods before all policies"


@verifies("XSVC-5", part="windows pod, cluster-ip on its own node")
def test_a_stranger_of_the_backends_node_gets_in_by_cluster_ip(
    *,
    pods: WorkerPods,
    policy: Policy,
    services: Services,
    windows_nodes: WindowsNodes,
    own_node_hole: OwnNode,
    expect: Expect,
) -> None:
    nodes = windows_nodes.on_l2bridge(windows_nodes.without_dsr())
    strangers = pods.placed_around(nodes, "same node")
    client = pods.clients("linux")
    through = strangers.through(services.by_address)
    admitted = client.to(strangers.servers).tcp(PORT)
    expect.controls([strangers.tcp(PORT), through, admitted], because=OPEN)
    policy.apply(client=client, server=strangers.servers)
    own_node_hole.lets_in(through, direct=strangers.tcp(PORT), admitted=admitted, because=UNGUARDED)


@verifies("XSVC-5", part="outside, NodePort of the backend's node")
def test_a_stranger_from_outside_gets_in_by_the_nodes_node_port(
    *,
    pods: WorkerPods,
    policy: Policy,
    services: Services,
    windows_nodes: WindowsNodes,
    own_node_hole: OwnNode,
    expect: Expect,
) -> None:
    servers = pods.servers("windows").at(*windows_nodes.on_l2bridge())
    client = pods.clients("linux")
    strangers = pods.nodes().to(servers)
    through = strangers.through(services.by_node_port)
    admitted = client.to(servers).tcp(PORT)
    expect.controls([strangers.tcp(PORT), through, admitted], because=OPEN)
    policy.apply(client=client, server=servers)
    own_node_hole.lets_in(through, direct=strangers.tcp(PORT), admitted=admitted, because=UNGUARDED)
