# SPDX-License-Identifier: Apache-2.0
"""Calico's MTU setting is for Linux: Windows pods keep the MTU that HNS gives them."""

from conformance.fixtures import CalicoObjects, Sizes, WorkerPods
from conformance.marks import needs, verifies


@verifies("VXLAN-8")
@needs(host_network=True)
def test_the_mtu_setting_has_no_effect_on_windows_pods(
    pods: WorkerPods, calico: CalicoObjects, sizes: Sizes
) -> None:
    linux = pods.clients("linux").beside(pods.servers("linux"))
    windows = pods.clients("windows").beside(pods.servers("windows")).one_per_build()
    because = "Calico's CNI plugin for Windows ignores the setting"
    sizes.setting_ignored(
        calico.mtu(), by=windows, followed_by=linux[0], node=pods.node(), because=because
    )
