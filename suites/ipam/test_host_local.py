# SPDX-License-Identifier: Apache-2.0
"""host-local gives Windows pods addresses of their node's podCIDR, and Calico's IPAM assigns
none."""

from conformance.fixtures import CalicoObjects, Readings, WorkerPods
from conformance.marks import verifies

DO = (
    "check the ipam type in the Windows node's CNI configuration, and USE_POD_CIDR of "
    "calico-node-windows; current releases claim a block nevertheless"
)


@verifies("DS-4", part="addresses")
def test_every_windows_pods_address_is_of_its_nodes_pod_cidr(
    pods: WorkerPods, calico: CalicoObjects, requires: Readings
) -> None:
    because = "host-local takes addresses of the podCIDR that Kubernetes gave the node"
    windows = pods.ensure_ready("windows-client", "windows-server")
    requires.that(calico.in_pod_cidr, "in its node's podCIDR", on=windows, because=because, do=DO)


@verifies("DS-4", part="blocks")
def test_no_block_is_a_windows_nodes(calico: CalicoObjects, requires: Readings) -> None:
    because = (
        "Calico announces each block that its startup claims, and the block's route does not lead "
        "to the pods"
    )
    requires.that(calico.blocks(), [], "none", because=because, do=DO)
