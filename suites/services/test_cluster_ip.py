"""Services are reached by ClusterIP, from pods in all four directions and from a Linux node."""

from conformance.marks import directions, manifest, verifies

pytestmark = [manifest("services/cluster-ip.yaml")]

BECAUSE = "kube-proxy of the client's node sends it on to the backend"


@verifies("CONN-4", part="{client_os}->{server_os} cluster-ip")
@directions()
def test_pods_reach_a_service_by_cluster_ip(pods, services, addresses, expect, *, client_os, server_os):
    client, server = pods.pair(client_os, server_os, same_node=client_os == server_os)
    service = services.cluster_ip(server)
    expect.source_is(client, service.by_address, addresses.behind(client), because=BECAUSE)


@verifies("CONN-4", part="{client_os}->{server_os} cluster-ip, UDP")
@directions()
def test_datagrams_reach_a_service_by_cluster_ip(pods, services, expect, *, client_os, server_os):
    client, server = pods.pair(client_os, server_os, same_node=client_os == server_os)
    expect.reachable(client, services.cluster_ip(server).by_address_udp, because=BECAUSE)


@verifies("CONN-5")
def test_a_linux_node_reaches_windows_backends(pods, services, addresses, expect):
    node, server = pods.of("linux-node", "windows-server")
    service = services.cluster_ip(server)
    expect.source_is(node, service.by_address, addresses.of_node(node), because=BECAUSE)
