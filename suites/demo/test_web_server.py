"""A Windows web server of two replicas starts behind a NodePort, and serves its page there."""

from conformance.fixtures import Expect, Pages, WebServer, WorkerPods
from conformance.marks import manifest, needs, verifies

pytestmark = [verifies("DEMO-9"), manifest("services/win-webserver.yaml"), needs(host_network=True)]


BECAUSE = "a Deployment of two replicas is nothing out of the ordinary, and no policy is in force"


def test_two_replicas_serve_the_page_by_node_port(
    pods: WorkerPods, webserver: WebServer, expect: Expect, page: Pages
) -> None:
    replicas, node_ports = webserver.start(because=BECAUSE)
    node = pods.node()
    expect.reachable(node, replicas, because=BECAUSE)
    page.show(node, node_ports, "<H1>Windows Container Web Server</H1>", because="its node has a replica")
