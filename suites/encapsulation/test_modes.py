# SPDX-License-Identifier: Apache-2.0
"""The cluster combines its pools' modes and BGP in a way in which Windows nodes can take part."""

from conformance.fixtures import CalicoObjects, LinuxRoutes, Readings, Remedies, WorkerPods
from conformance.marks import needs, verifies


@verifies("ENC-1")
@verifies("ENC-2", part="pools", applies={"calico": ">=3.27"})
def test_no_pool_uses_ipip(calico: CalicoObjects, requires: Readings, remedy: Remedies) -> None:
    because = "Windows does not support IPIP, so Windows pods cannot reach pods behind IPIP"
    requires.that(calico.pools("ipipMode"), "Never", because=because, do=remedy.encapsulation())


@verifies("ENC-3")
def test_pools_are_vxlan_without_bgp_or_bgp_without_encapsulation(
    calico: CalicoObjects, requires: Readings, remedy: Remedies
) -> None:
    supported = {"VXLAN with BGP disabled", "no encapsulation with BGP enabled"}
    because = "a Windows node has a single HNS network, either an overlay or a bridge"
    shapes = calico.shapes()
    requires.that(
        shapes,
        supported.__contains__,
        " or ".join(sorted(supported)),
        because=because,
        do=remedy.modes(),
    )


@verifies("ENC-5")
def test_bgp_is_disabled_under_vxlan(
    calico: CalicoObjects, requires: Readings, remedy: Remedies
) -> None:
    because = (
        "with BGP enabled, Windows nodes get a bridge instead of the overlay and cannot reach "
        "Linux nodes"
    )
    requires.that(calico.bgp(), "Disabled", because=because, do=remedy.bgp_disabled())


@verifies("ENC-2", part="setting", applies={"calico": "<3.27"})
def test_ipip_is_not_turned_on(
    linux_routes: LinuxRoutes, requires: Readings, remedy: Remedies
) -> None:
    because = (
        "IPIP must be off, since Windows does not support it; this setting turns IPIP on, "
        "whatever the pools say"
    )
    requires.that(
        linux_routes.ipip_setting(), "off", because=because, do=remedy.felix("ipipEnabled")
    )


@verifies("ENC-2", part="routes of linux nodes")
@needs(host_network=True)
def test_no_linux_node_routes_by_ipip(
    pods: WorkerPods, linux_routes: LinuxRoutes, requires: Readings
) -> None:
    because = "a Windows node neither receives packets from tunl0 nor sends packets to it"
    do = "set the pool that uses IPIP to ipipMode Never, then restart calico-node on the node"
    requires.that(linux_routes.by_ipip, [], on=pods.nodes(), because=because, do=do)


@verifies("ENC-4")
def test_all_pools_are_of_one_kind(
    calico: CalicoObjects, requires: Readings, remedy: Remedies
) -> None:
    because = (
        "a Windows node has either an overlay or a bridge, and cannot reach pods of the other kind"
    )
    kinds = calico.pool_kinds()
    requires.that(
        kinds, lambda found: len(found) == 1, "one kind", because=because, do=remedy.encapsulation()
    )


@verifies("ENC-6")
def test_bgp_goes_with_no_overlay(calico: CalicoObjects, requires: Readings) -> None:
    because = "a Windows node that peers by BGP has a bridge and no overlay"
    do = "set ipipMode and vxlanMode of the pool to Never (by operator: its encapsulation to None)"
    requires.that(calico.pools("ipipMode"), "Never", because=because, do=do)
    requires.that(calico.pools("vxlanMode"), "Never", because=because, do=do)


@verifies("VXLAN-7")
def test_no_pool_has_cross_subnet_mode(
    calico: CalicoObjects, requires: Readings, remedy: Remedies
) -> None:
    because = "Windows uses the overlay even to nodes in its own subnet, but Linux would not"
    modes = calico.pools("vxlanMode")
    right = {"Always", "Never"}
    requires.that(
        modes, right.__contains__, "Always or Never", because=because, do=remedy.encapsulation()
    )


@verifies("ENC-7")
def test_early_releases_have_no_bgp_on_windows(calico: CalicoObjects, requires: Readings) -> None:
    because = (
        "up to v3.17, Calico for Windows has no BGP, so no node learns the routes to Windows pods"
    )
    supported = {"vxlan", "policy-only"}
    do = "use VXLAN with BGP disabled, or upgrade Calico"
    requires.that(
        calico.network(), supported.__contains__, "vxlan or policy-only", because=because, do=do
    )
