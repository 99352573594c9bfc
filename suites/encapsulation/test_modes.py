"""The cluster's pools and BGP are in one of the combinations that Windows nodes can take part in."""

from conformance.fixtures import CalicoObjects, Readings, Remedies
from conformance.marks import verifies


@verifies("ENC-1")
def test_no_pool_uses_ipip(calico: CalicoObjects, requires: Readings, remedy: Remedies) -> None:
    because = "Windows has no IPIP, so that Windows pods cannot reach pods behind it"
    requires.that(calico.pools("ipipMode"), "Never", because=because, do=remedy.encapsulation())


@verifies("ENC-3")
def test_pools_are_vxlan_without_bgp_or_bgp_without_encapsulation(
    calico: CalicoObjects, requires: Readings, remedy: Remedies
) -> None:
    supported = {"VXLAN with BGP disabled", "no encapsulation with BGP enabled"}
    because = "a Windows node has one HNS network, either an overlay or a bridge"
    shapes = calico.shapes()
    requires.that(shapes, supported.__contains__, " or ".join(sorted(supported)), because=because, do=remedy.modes())


@verifies("ENC-5")
def test_bgp_is_disabled_under_vxlan(calico: CalicoObjects, requires: Readings, remedy: Remedies) -> None:
    because = "with BGP enabled Windows nodes get a bridge in place of the overlay, and lose the Linux nodes"
    requires.that(calico.bgp(), "Disabled", because=because, do=remedy.bgp_disabled())
