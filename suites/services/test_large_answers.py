# SPDX-License-Identifier: Apache-2.0
"""Answers larger than a packet arrive completely through Services, and so do datagrams that fill a
packet."""

from conformance.fixtures import OS, Backends, Services, WorkerPods
from conformance.marks import about, directions, verifies

BECAUSE = "the node of a Service's client rewrites the addresses in every packet"


@about("clusterip")
@directions()
@verifies("CONN-4", part="{client_os}->{server_os} answers above the MTU", provisional=True)
def test_a_large_answer_comes_through_services_whole(
    pods: WorkerPods, services: Services, backends: Backends, client_os: OS, server_os: OS
) -> None:
    pod_pairs = pods.clients(client_os).to(pods.servers(server_os)).one_per_build()
    paths = [
        *pod_pairs.through(services.by_address),
        *pod_pairs.through(services.by_node_port),
        *pod_pairs.through(services.by_address_udp),
    ]
    backends.answer_whole(paths, because=BECAUSE)
