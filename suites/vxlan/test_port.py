# SPDX-License-Identifier: Apache-2.0
"""VXLAN uses UDP port 4789, since Windows supports no other."""

from conformance.fixtures import Readings, Remedies, VxlanFacts, WorkerPods
from conformance.marks import about, needs, verifies

BECAUSE = "Windows sends VXLAN to UDP 4789 and listens there, whatever is configured"


@about("udp")
@verifies("VXLAN-3", part="configured")
def test_no_other_vxlan_port_is_configured(
    vxlan: VxlanFacts, requires: Readings, remedy: Remedies
) -> None:
    requires.that(
        vxlan.configured("vxlanPort"), 4789, because=BECAUSE, do=remedy.felix("vxlanPort")
    )


@verifies("VXLAN-3", part="device of linux nodes")
@needs(host_network=True)
def test_every_linux_node_uses_the_port_of_windows(
    pods: WorkerPods, vxlan: VxlanFacts, requires: Readings, remedy: Remedies
) -> None:
    requires.that(
        vxlan.device_port, 4789, on=pods.nodes(), because=BECAUSE, do=remedy.felix("vxlanPort")
    )
