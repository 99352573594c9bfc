# SPDX-License-Identifier: Apache-2.0
"""A Windows web server of two replicas starts behind a NodePort, and serves its page there."""

from conformance.fixtures import Case, Expect, NodePorts, Pages, Services, WebServer, WorkerPods
from conformance.marks import manifest, needs, verifies

pytestmark = [verifies("DEMO-9"), manifest("services/win-webserver.yaml"), needs(host_network=True)]


BECAUSE = "a Deployment of two replicas is an ordinary workload, and no policy is in force"


def test_two_replicas_serve_the_page_by_node_port(
    *,
    pods: WorkerPods,
    services: Services,
    webserver: WebServer,
    node_ports: NodePorts,
    expect: Expect,
    page: Pages,
) -> None:
    replicas, of_windows = webserver.start(because=BECAUSE)
    node = pods.node()
    of_linux = services.node_ports(pods.servers("linux"))
    expect.matrix(Case(node, replicas, open=True, because=BECAUSE))
    node_ports.pass_between_nodes(
        [node], of_linux, because="a firewall may close NodePorts, whatever their backends"
    )
    page.show(
        node,
        of_windows,
        "<H1>Windows Container Web Server</H1>",
        because="the called node has a replica",
    )
