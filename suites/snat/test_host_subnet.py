# SPDX-License-Identifier: Apache-2.0
"""A server in a node's own network receives the node's address in place of a Windows pod's:
natOutgoing does not exclude the nodes' subnet."""

from conformance.fixtures import CalicoObjects, HostSubnet, WorkerPods
from conformance.marks import needs, verifies


@verifies("XNAT-2")
@needs(host_network=True)
def test_a_server_on_a_node_sees_the_node_of_a_windows_pod(
    pods: WorkerPods, host_subnet: HostSubnet, calico: CalicoObjects
) -> None:
    because = (
        "on Windows, Calico's plugin excludes Services and pools from natOutgoing, but not the "
        "nodes' subnet"
    )
    node = [pods.node()]
    natted = calico.pools("natOutgoing")
    windows = pods.clients("windows").to(node)
    linux = pods.clients("linux").to(node)
    exclusions = calico.nat_exclusions()
    host_subnet.is_natted(windows, natted, exclusions, beside=linux, because=because)
