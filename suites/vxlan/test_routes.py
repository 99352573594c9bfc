# SPDX-License-Identifier: Apache-2.0
"""Routes between nodes are programmed by Calico: nodes announce their tunnel ends, and all other
nodes use them."""

from conformance.fixtures import Readings, VxlanFacts, WorkerPods
from conformance.marks import needs, verifies

DO = (
    "compare 'ip route', 'bridge fdb' and 'ip neigh' of the Linux node with the Windows node's projectcalico.org "
    "annotations; restart calico-node on the Linux node; only if the annotations are wrong, restart "
    "calico-node-windows (which resets its pods' connections)"
)
ON_WINDOWS = (
    "compare the RemoteSubnetRoute policies of the Windows node's HNS network Calico with the other node's "
    "projectcalico.org annotations; if the annotations are wrong, restart calico-node on the other node; otherwise "
    "restart calico-node-windows (which resets its pods' connections)"
)


@verifies("VXLAN-2", part="tunnel addresses")
def test_every_windows_node_announces_the_tunnel_of_its_block(
    vxlan: VxlanFacts, requires: Readings
) -> None:
    because = (
        "the second address of a Windows node's block is the block's gateway and the node's "
        "tunnel address"
    )
    requires.that(vxlan.tunnels(), "second address of its block", because=because, do=DO)


@verifies("VXLAN-2", part="routes of linux nodes")
@needs(host_network=True)
def test_every_linux_node_has_a_route_to_every_block(
    pods: WorkerPods, vxlan: VxlanFacts, requires: Readings
) -> None:
    pods.ensure_ready("windows-server")
    because = "Felix on Linux routes a block to the tunnel that its node announces"
    requires.that(vxlan.routes, "as announced", on=pods.nodes(), because=because, do=DO)


@verifies("VXLAN-2", part="forwarding of linux nodes")
@needs(host_network=True)
def test_every_linux_node_knows_where_every_tunnel_ends(
    pods: WorkerPods, vxlan: VxlanFacts, requires: Readings
) -> None:
    pods.ensure_ready("windows-server")
    because = (
        "Felix on Linux sends frames for a tunnel's MAC address to the node whose tunnel it is"
    )
    requires.that(vxlan.forwarding, "as announced", on=pods.nodes(), because=because, do=DO)


@verifies("VXLAN-2", part="VNI of linux nodes")
@needs(host_network=True)
def test_every_linux_node_has_the_configured_vni(
    pods: WorkerPods, vxlan: VxlanFacts, requires: Readings
) -> None:
    because = "nodes accept only packets with their own VNI"
    requires.that(vxlan.device_vni, "the configured VNI", on=pods.nodes(), because=because, do=DO)


@verifies("VXLAN-2", part="routes of windows nodes")
@needs(host_process=True)
def test_every_windows_node_has_a_route_to_every_block(
    pods: WorkerPods, vxlan: VxlanFacts, requires: Readings
) -> None:
    because = (
        "Felix on Windows gives the HNS network a RemoteSubnetRoute for every block, which leads "
        "to the block's node"
    )
    windows = pods.ensure_ready("windows-server")
    requires.that(vxlan.remote_subnets, "as announced", on=windows, because=because, do=ON_WINDOWS)
