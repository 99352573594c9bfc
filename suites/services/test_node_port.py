"""A NodePort answers on the Windows nodes that have a backend; elsewhere it may not."""

from conformance.marks import manifest, verifies

pytestmark = [manifest("services/node-port.yaml")]


@verifies("CONN-7")
def test_a_linux_node_reaches_each_windows_node_with_a_backend(pods, services, expect):
    targets = services.node_ports(pods.on_each_node("windows"))
    expect.reachable(pods.node(), targets, because="kube-proxy of that node has a backend of its own")


@verifies("XSVC-2")
def test_a_node_without_a_backend_may_not_forward(pods, services, known_issue):
    node, here, elsewhere = pods.of("linux-node", "windows-server", "windows-peer")
    service = services.node_port(here)
    because = "Windows nodes without a backend are known not to forward NodePorts"
    known_issue.may_fail(node, service.on(elsewhere), beside=service.on(here), because=because)
