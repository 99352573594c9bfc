"""In every block of a Windows node four addresses are kept back, and in no other."""

from conformance.fixtures import CalicoObjects, Readings
from conformance.marks import verifies


@verifies("IPAM-3")
def test_the_first_three_and_the_last_address_are_reserved(calico: CalicoObjects, requires: Readings) -> None:
    because = "they are network, gateway, the node's own endpoint and broadcast of the HNS network"
    reserved = ["first", "second", "third", "last"]
    requires.equal(calico.reserved(), reserved, because=because, do="compare with calicoctl ipam check")
    only = "only Windows nodes have that network: Linux nodes' blocks give all their addresses to pods"
    requires.equal(calico.reserved_elsewhere(), [], because=only, do="compare with calicoctl ipam check")
