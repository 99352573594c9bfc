# SPDX-License-Identifier: Apache-2.0
"""A NodePort answers on all Linux nodes, and on the Windows nodes that have a backend. Other
Windows nodes may not answer."""

from conformance.fixtures import Case, Expect, KnownIssue, NodePorts, Services, WorkerPods
from conformance.marks import manifest, verifies

pytestmark = [manifest("services/node-port.yaml")]

SENT_ON = "kube-proxy of a Linux node forwards this traffic to a backend on any node"
FIREWALL = "a firewall may close NodePorts, whatever their backends"
OWN_BACKEND = "the called node has a backend of the Service"
NO_BACKEND = "Windows nodes without a backend are known not to forward NodePorts"


@verifies("CONN-7", part="linux nodes")
def test_a_linux_node_reaches_each_linux_node_with_or_without_a_backend(
    pods: WorkerPods, services: Services, expect: Expect
) -> None:
    nodes = pods.nodes()
    servers = pods.servers("linux")
    of_windows = pods.servers("windows").one_per_build()
    elsewhere = services.node_ports_at(servers, pods.server("linux"), *of_windows)
    expect.matrix(
        Case(nodes, services.node_ports(servers), open=True, because=SENT_ON),
        Case(nodes, services.node_ports_udp(servers), open=True, because=SENT_ON),
        Case(nodes, elsewhere, open=True, because=SENT_ON),
    )


@verifies("CONN-7", part="windows nodes")
def test_a_linux_node_reaches_each_windows_node_with_a_backend(
    pods: WorkerPods, services: Services, node_ports: NodePorts, expect: Expect
) -> None:
    nodes = pods.nodes()
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    of_linux = [*services.node_ports(linux), *services.node_ports_udp(linux)]
    node_ports.pass_between_nodes(nodes, of_linux, because=FIREWALL)
    expect.matrix(
        Case(nodes, services.node_ports(windows), open=True, because=OWN_BACKEND),
        Case(nodes, services.node_ports_udp(windows), open=True, because=OWN_BACKEND),
    )


@verifies("XSVC-2")
def test_a_node_without_a_backend_may_not_forward(
    pods: WorkerPods, services: Services, known_issue: KnownIssue
) -> None:
    servers = pods.servers("windows")
    goals = services.node_ports_elsewhere(servers.across(servers))
    known_issue.may_fail(pods.node(), goals, because=NO_BACKEND)
