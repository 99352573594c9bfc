# SPDX-License-Identifier: Apache-2.0
"""A server outside the cluster receives addresses of nodes and never of their pods: traffic that
leaves the pools is translated (natOutgoing), for each pod, including backends of Services."""

from conformance.fixtures import OS, CalicoObjects, ExternalPaths, Services, WorkerPods
from conformance.marks import about, each_os, manifest, verifies

BECAUSE = "natOutgoing of its pool translates packets that leave the pools, and hosts outside have routes only to nodes"

pytestmark = [manifest("services/cluster-ip.yaml")]


@about("tcp")
@verifies("NAT-2", part="{os} pods")
@each_os("os")
def test_a_server_beyond_the_pools_sees_the_node(
    pods: WorkerPods, services: Services, external: ExternalPaths, calico: CalicoObjects, os: OS
) -> None:
    backends = pods.servers(os)
    services.spread(backends)
    several_of_each_node = pods.clients(os) + backends + pods.elsewhere(os)
    natted = calico.pools("natOutgoing")
    external.sees_nodes(several_of_each_node, "tcp", pods.node(), natted, because=BECAUSE)


@about("udp")
@verifies("NAT-2", part="{os} pods, UDP")
@each_os("os")
def test_datagrams_beyond_the_pools_come_from_the_node(
    pods: WorkerPods, services: Services, external: ExternalPaths, calico: CalicoObjects, os: OS
) -> None:
    backends = pods.servers(os)
    services.spread(backends)
    several_of_each_node = pods.clients(os) + backends + pods.elsewhere(os)
    natted = calico.pools("natOutgoing")
    external.sees_nodes(several_of_each_node, "udp", pods.node(), natted, because=BECAUSE)
