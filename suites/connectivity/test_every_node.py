"""On every node a pod starts, is reached and reaches others: what a first look at a cluster needs."""

from conformance.marks import each_os, smoke, verifies

pytestmark = [smoke(), verifies("CONN-3", part="every {client_os} node")]


@each_os("client_os")
def test_a_pod_of_every_node_reaches_a_server(pods, expect, client_os):
    clients = pods.on_each_node(client_os)
    server = pods.server("linux" if client_os == "windows" else "windows")
    expect.reachable(clients, server.tcp(8080), because="no policy is in force")
