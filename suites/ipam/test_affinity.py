# SPDX-License-Identifier: Apache-2.0
"""Addresses stay with the node that owns their block: strict affinity, one block per Windows node, no borrowing."""

from conformance.fixtures import (
    CalicoObjects,
    DocumentedPatch,
    IpamFacts,
    LinuxRoutes,
    Readings,
    Remedies,
    WorkerPods,
)
from conformance.marks import needs, verifies


@verifies("IPAM-1")
def test_strict_affinity_is_on(calico: CalicoObjects, requires: Readings, remedy: Remedies) -> None:
    because = (
        "without strict affinity, Calico's IPAM refuses Windows nodes addresses, and Linux nodes "
        "may borrow their addresses"
    )
    requires.that(calico.strict_affinity(), True, because=because, do=remedy.strict_affinity())


@verifies("IPAM-14")
@needs(v3_api=True)
def test_the_documented_command_turns_strict_affinity_on(
    documented_patch: DocumentedPatch, requires: Readings
) -> None:
    because = (
        "the requirements page documents this command; the API server tries it and stores nothing"
    )
    do = "run the command by hand, and read the API server's reply"
    done = "accepted, with strictAffinity true in the answer and in the object"
    requires.that(documented_patch.tried(), done, because=because, do=do)


@verifies("IPAM-6")
def test_every_windows_node_has_exactly_one_block(ipam: IpamFacts, requires: Readings) -> None:
    because = "kube-proxy on Windows supports one HNS network, and each HNS network is one block"
    do = (
        "no block: start a pod on the node; if the node still claims no block, check IPAM-1 and "
        "the IPPools' free blocks; several blocks: calicoctl ipam show --show-blocks shows which "
        "are empty; drain the node, and read the log of calico-kube-controllers, which releases "
        "empty blocks"
    )
    requires.that(ipam.blocks, "one block", on=ipam.windows, because=because, do=do)


@verifies("XIPAM-3")
def test_a_windows_node_without_pods_has_its_block_already(
    ipam: IpamFacts, requires: Readings
) -> None:
    because = (
        "calico-node claims a block when it starts, so that the first pod's network has addresses"
    )
    do = "read the log of calico-node on that node from its start, and check IPAM-1"
    right = "a block with its reserved addresses, and an announced address"
    requires.that(ipam.first_block, right, on=ipam.windows, because=because, do=do)


@verifies("IPAM-8")
def test_every_windows_pod_has_an_address_of_its_own_nodes_block(
    pods: WorkerPods, ipam: IpamFacts, requires: Readings
) -> None:
    pods.ensure_ready("windows-client", "windows-server")
    because = (
        "Windows nodes never borrow addresses, since their HNS network contains only their own "
        "block"
    )
    do = "delete that pod; if its successor has a borrowed address too, run calicoctl ipam check"
    requires.that(
        ipam.places, "in a block of its node", on=ipam.windows_with_pods, because=because, do=do
    )


@verifies("XIPAM-2")
def test_the_kubelet_stops_before_the_block_is_full(ipam: IpamFacts, requires: Readings) -> None:
    because = (
        "a pod for which the block has no address does not start, and the scheduler assigns such "
        "pods to the node again and again"
    )
    do = "set the kubelet's maxPods on the node to the size of its block minus four"
    requires.that(
        ipam.room,
        "no more than its blocks have addresses for",
        on=ipam.windows,
        because=because,
        do=do,
    )


@verifies("BGP-3")
@needs(host_network=True)
def test_linux_nodes_route_windows_pods_by_block(
    pods: WorkerPods, linux_routes: LinuxRoutes, requires: Readings
) -> None:
    pods.ensure_ready("windows-server")
    because = "one route serves all pods of a Windows node, whatever their number"
    do = "compare 'ip route' of the Linux node with 'kubectl get blockaffinities', and restart calico-node there"
    requires.that(
        linux_routes.to_blocks,
        "one route for the whole block",
        on=pods.nodes(),
        because=because,
        do=do,
    )
