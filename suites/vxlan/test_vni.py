# SPDX-License-Identifier: Apache-2.0
"""The VNI is valid on Windows, and has not changed since a Windows node's network was created."""

from conformance.fixtures import (
    OverlayChange,
    Readings,
    Remedies,
    VniChange,
    VxlanFacts,
    WorkerPods,
)
from conformance.marks import needs, verifies


@verifies("XVX-1")
def test_the_vni_is_4096_or_higher(vxlan: VxlanFacts, requires: Readings, remedy: Remedies) -> None:
    because = (
        "Windows refuses to connect a pod to a network with a lower VNI: Windows "
        "does not support VXLANVNI < 4096"
    )
    vni = vxlan.configured("vxlanVNI")
    requires.that(
        vni,
        lambda value: value >= 4096,
        "4096 or higher",
        because=because,
        do=remedy.felix("vxlanVNI"),
    )


@verifies("VXLAN-9", part="read")
def test_every_windows_network_has_the_configured_vni(
    pods: WorkerPods, vxlan: VxlanFacts, requires: Readings
) -> None:
    networked = pods.ensure_ready("windows-server")
    because = (
        "an HNS network keeps the VNI with which it was created, and nodes accept only their own "
        "VNI"
    )
    do = (
        "drain the node, remove its HNS network Calico, restart calico-node-windows, uncordon the node (VXLAN-10); "
        "then restart kube-proxy on the node if Services do not work"
    )
    requires.that(vxlan.vsid, "the configured VNI", on=networked, because=because, do=do)


@verifies("VXLAN-9", part="changed", active=True)
@verifies("VXLAN-11", active=True)
@verifies("VXLAN-12", active=True)
@verifies("XVX-3", active=True)
@verifies("XVX-4", active=True)
@needs(v3_api=True, host_network=True, vni_delivery=True)
def test_a_windows_network_keeps_its_vni_when_another_is_delivered(
    vni: VniChange, overlay_change: OverlayChange
) -> None:
    vni.prepare(because="all nodes have one VNI")
    overlay_change.cross_subnet(
        because=(
            "Linux sends these packets without the tunnel, which a Windows network does not support"
        )
    )
    overlay_change.another_port(because="Windows sends to UDP 4789 and listens there")
    overlay_change.large_vni(because="Windows sends with the lower 16 bits of the VNI")
    overlay_change.small_vni(because="Windows creates no network with a VNI below 4096")
    vni.deliver(because="Windows has received the new VNI, and a new pod gets its network")
    vni.stays_behind(
        because=(
            "Windows' network keeps its VNI while Linux uses the new VNI, so each drops the "
            "other's packets"
        )
    )
    overlay_change.end()


@verifies("VXLAN-10", part="procedure")
@needs(v3_api=True, host_network=True)
def test_the_documented_procedure_gives_windows_the_new_vni(vni: VniChange) -> None:
    vni.prepare(because="all nodes have one VNI")
    vni.deliver(
        because="Windows has received the new VNI, but its existing network keeps the old VNI"
    )
    vni.follow_the_procedure(
        because=(
            "the node was drained, its network removed, Calico restarted, and the node uncordoned"
        )
    )
    vni.heals(because="the network of the next pod is created with the current VNI")
