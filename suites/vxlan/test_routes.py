"""Routes to Windows nodes are there by themselves: nodes announce their tunnel ends, and Linux nodes use them."""

from conformance.fixtures import Readings, VxlanFacts, WorkerPods
from conformance.marks import needs, verifies

DO = "restart calico-node on that Linux node, and calico-node-windows on that Windows node"


@verifies("VXLAN-2", part="tunnel addresses")
def test_every_windows_node_announces_the_tunnel_of_its_block(vxlan: VxlanFacts, requires: Readings) -> None:
    because = "the second address of a Windows node's block is its gateway, and the end of its tunnel"
    requires.equal(vxlan.tunnels(), "second address of its block", because=because, do=DO)


@verifies("VXLAN-2", part="routes")
@needs(host_network=True)
def test_a_linux_node_has_a_route_to_every_windows_block(
    pods: WorkerPods, vxlan: VxlanFacts, requires: Readings
) -> None:
    pods.ensure_ready("windows-server")
    because = "Felix on Linux routes a block to the tunnel that its node announces"
    requires.equal(vxlan.routes(pods.node().node), "as announced", because=because, do=DO)


@verifies("VXLAN-2", part="forwarding")
@needs(host_network=True)
def test_a_linux_node_knows_where_every_windows_tunnel_ends(
    pods: WorkerPods, vxlan: VxlanFacts, requires: Readings
) -> None:
    pods.ensure_ready("windows-server")
    because = "Felix on Linux sends frames for an announced MAC address to the node that announced it"
    requires.equal(vxlan.forwarding(pods.node().node), "as announced", because=because, do=DO)
