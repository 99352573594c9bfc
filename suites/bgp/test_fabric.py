# SPDX-License-Identifier: Apache-2.0
"""The fabric between nodes carries packets that have pods' addresses, in clouds where it does so only when told to."""

from conformance.fixtures import Fabric, FlannelFabric, WorkerPods
from conformance.marks import needs, verifies


@verifies("BGP-5", part="the fabric", applies={"modes": ["bgp"]})
@needs(host_network=True)
def test_the_fabric_passes_what_has_a_pods_address(pods: WorkerPods, fabric: Fabric) -> None:
    linux = pods.clients("linux")
    windows = pods.clients("windows")
    there = linux.to(pods.servers("windows"))
    back = windows.to(pods.servers("linux"))
    within = linux.beside(pods.servers("linux")).tcp(8080) + windows.beside(
        pods.servers("windows")
    ).tcp(8080)
    between = there.tcp(8080) + back.tcp(8080)
    fabric.passes(
        between=between,
        within=within,
        node=pods.node(),
        because="the source/destination check is off",
    )


@verifies(
    "BGP-5",
    part="the fabric under flannel",
    applies={"cnis": ["flannel"], "windows_plane": ["l2bridge"]},
)
@needs(host_network=True)
def test_the_fabric_passes_what_has_a_pods_address_where_flannel_lays_the_routes(
    pods: WorkerPods, flannel_fabric: FlannelFabric
) -> None:
    linux = pods.clients("linux")
    windows = pods.clients("windows")
    there = linux.to(pods.servers("windows"))
    back = windows.to(pods.servers("linux"))
    within = linux.beside(pods.servers("linux")).tcp(8080) + windows.beside(
        pods.servers("windows")
    ).tcp(8080)
    between = there.tcp(8080) + back.tcp(8080)
    because = "the source/destination check is off"
    flannel_fabric.passes(between=between, within=within, node=pods.node(), because=because)
