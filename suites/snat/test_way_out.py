# SPDX-License-Identifier: Apache-2.0
"""Pods reach an address outside the IP pools: the API server answers each pod at its own
address, whatever source address it receives."""

from conformance.fixtures import OS, CalicoObjects, WayOut, WorkerPods
from conformance.marks import about, each_os, verifies

BECAUSE = (
    "natOutgoing of its pool translates packets to addresses outside the pools, and answers return"
)


@about("tcp")
@verifies("XNAT-3", part="{os} pods")
@each_os("os")
def test_pods_reach_an_address_outside_the_pools(
    pods: WorkerPods, way_out: WayOut, calico: CalicoObjects, os: OS
) -> None:
    clients = pods.clients(os)
    natted = calico.pools("natOutgoing")
    way_out.leads(clients, calico.api_servers(), natted, because=BECAUSE)
