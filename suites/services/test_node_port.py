# SPDX-License-Identifier: Apache-2.0
"""A NodePort answers on all Linux nodes, and on the Windows nodes that have a backend; on others it may not."""

from conformance.fixtures import Expect, KnownIssue, NodePorts, Services, WorkerPods
from conformance.marks import manifest, verifies

pytestmark = [manifest("services/node-port.yaml")]


@verifies("CONN-7", part="linux nodes")
def test_a_linux_node_reaches_each_linux_node_with_or_without_a_backend(
    pods: WorkerPods, services: Services, expect: Expect
) -> None:
    servers = pods.servers("linux")
    of_windows = pods.servers("windows").one_per_build()
    elsewhere = services.node_ports_at(servers, pods.server("linux"), *of_windows)
    targets = [*services.node_ports(servers), *services.node_ports_udp(servers), *elsewhere]
    expect.reachable(
        pods.nodes(),
        targets,
        because="kube-proxy of a Linux node sends it on to wherever the backend is",
    )


@verifies("CONN-7", part="windows nodes")
def test_a_linux_node_reaches_each_windows_node_with_a_backend(
    pods: WorkerPods, services: Services, node_ports: NodePorts, expect: Expect
) -> None:
    linux = pods.servers("linux")
    servers = pods.servers("windows")
    of_linux = [*services.node_ports(linux), *services.node_ports_udp(linux)]
    node_ports.pass_between_nodes(
        pods.nodes(), of_linux, because="a firewall may close them, for all backends alike"
    )
    targets = [*services.node_ports(servers), *services.node_ports_udp(servers)]
    expect.reachable(
        pods.nodes(), targets, because="kube-proxy of that node has a backend of its own"
    )


@verifies("XSVC-2")
def test_a_node_without_a_backend_may_not_forward(
    pods: WorkerPods, services: Services, known_issue: KnownIssue
) -> None:
    servers = pods.servers("windows")
    goals = services.node_ports_elsewhere(servers.across(servers))
    because = "Windows nodes without a backend are known not to forward NodePorts"
    known_issue.may_fail(pods.node(), goals, because=because)
