# SPDX-License-Identifier: Apache-2.0
"""Packets of all sizes pass between pods in both directions: every packet that the sender's
operating system sends arrives."""

from conformance.fixtures import OS, Case, Fragments, Sizes, WorkerPods
from conformance.marks import about, directions, verifies

ROOM = "pods' MTU leaves room for the overlay's 50 bytes"
FILLED = "between every two nodes, TCP sends packets of the largest size that both ends announce"
CUT_UP = "the sender's system fragments such datagrams, and the receiver's system reassembles them"


@verifies("CONN-3", part="{client_os}->{server_os} full-sized packets")
@directions(across_nodes=True)
def test_full_sized_packets_pass_between_nodes(
    *, pods: WorkerPods, sizes: Sizes, fragments: Fragments, client_os: OS, server_os: OS
) -> None:
    clients = pods.clients(client_os)
    servers = pods.servers(server_os)
    sizes.carries(clients.across(servers).one_per_build(), because=ROOM)
    fragments.arrive(Case(clients, servers, on="other nodes", tcp=8080, open=True, because=FILLED))


@about("udp")
@verifies("CONN-3", part="{client_os}->{server_os} datagrams above the MTU")
@directions(across_nodes=True)
def test_datagrams_above_the_mtu_arrive_whole(
    pods: WorkerPods, fragments: Fragments, client_os: OS, server_os: OS
) -> None:
    clients = pods.clients(client_os)
    servers = pods.servers(server_os)
    fragments.arrive(Case(clients, servers, on="other nodes", udp=8080, open=True, because=CUT_UP))
