# SPDX-License-Identifier: Apache-2.0
"""A server beyond the cluster sees nodes and never their pods: what leaves the pools is translated (natOutgoing)."""

from conformance.fixtures import OS, Beyond, CalicoObjects, WorkerPods
from conformance.marks import about, each_os, verifies

BECAUSE = "natOutgoing of its pool translates what leaves the pools, and hosts beyond know the way to nodes alone"


@about("tcp")
@verifies("NAT-2", part="{os} pods")
@each_os("os")
def test_a_server_beyond_the_pools_sees_the_node(
    pods: WorkerPods, beyond: Beyond, calico: CalicoObjects, os: OS
) -> None:
    natted = calico.pools("natOutgoing")
    beyond.sees_nodes(pods.clients(os), "tcp", pods.node(), natted, because=BECAUSE)


@about("udp")
@verifies("NAT-2", part="{os} pods, UDP")
@each_os("os")
def test_datagrams_beyond_the_pools_come_from_the_node(
    pods: WorkerPods, beyond: Beyond, calico: CalicoObjects, os: OS
) -> None:
    natted = calico.pools("natOutgoing")
    beyond.sees_nodes(pods.clients(os), "udp", pods.node(), natted, because=BECAUSE)
