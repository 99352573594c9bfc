# SPDX-License-Identifier: Apache-2.0
"""A client that keeps its UDP socket reaches another backend once its own backend is gone, although
datagrams have no connection that could end."""

from conformance.fixtures import OS, Backends, Case, Expect, Services, WorkerPods
from conformance.marks import about, each_os, needs, verifies

FIRST = "kube-proxy of the client's node leads to the Service's only backend"
GONE = (
    "kube-proxy removes UDP flows to a backend that is gone, and leads the datagrams to the new "
    "backend"
)


@about("clusterip", "udp")
@each_os("server_os")
@needs(linux=2, windows=2)
@verifies("CONN-4", part="kept UDP socket, {server_os} backends", provisional=True)
def test_a_kept_udp_socket_gets_to_another_backend_once_its_own_is_gone(
    pods: WorkerPods, services: Services, backends: Backends, expect: Expect, server_os: OS
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers(server_os)
    first = servers.at(servers[0].node)
    other = servers.at(servers[1].node)
    front = services.spread(first).by_address_udp
    expect.matrix(Case(clients, front, open=True, because=FIRST))
    backends.answer_a_kept_socket(clients, front, because=FIRST)
    backends.answer_a_kept_socket(clients, services.spread(other).by_address_udp, because=GONE)
