# SPDX-License-Identifier: Apache-2.0
"""Linux and Windows keep Calico's data in one place: Linux reads the data that Windows nodes
write."""

from conformance.fixtures import CalicoObjects, IpamFacts, Readings, WorkerPods
from conformance.marks import verifies

DO = "compare DATASTORE_TYPE and the kubeconfig of Calico on the Windows node with those of calico-node on Linux"


@verifies("DS-1", part="annotations", applies={"modes": ["vxlan", "bgp", "mixed"]})
def test_every_windows_node_writes_its_address_here(
    calico: CalicoObjects, requires: Readings
) -> None:
    because = "when Calico starts on a node, it writes the node's address into its datastore"
    requires.that(calico.announced, "an address", on=calico.windows, because=because, do=DO)


@verifies("DS-1", part="addresses", applies={"ipam": ["calico-ipam"]})
def test_every_windows_pods_address_is_of_a_block_here(
    pods: WorkerPods, ipam: IpamFacts, requires: Readings
) -> None:
    pods.ensure_ready("windows-client", "windows-server")
    because = "the CNI plugin on Windows takes addresses from blocks in its datastore"
    requires.that(ipam.known, "in a block", on=ipam.windows_with_pods, because=because, do=DO)


@verifies("DS-1", part="settings")
def test_both_parts_are_told_one_datastore(calico: CalicoObjects, requires: Readings) -> None:
    because = (
        "Calico on Linux and Windows nodes cannot read each other's data if their datastores differ"
    )
    requires.that(calico.datastore_types(), "the same", because=because, do=DO)
