"""Calico's MTU setting is for Linux: Windows pods keep the MTU that HNS gives them."""

from conformance.marks import needs, verifies


@verifies("VXLAN-8")
@needs(host_network=True)
def test_the_mtu_setting_has_no_effect_on_windows_pods(pods, calico, sizes):
    node = pods.node()
    linux, windows = pods.pair("linux", "linux", same_node=True), pods.pair("windows", "windows", same_node=True)
    because = "Calico's CNI plugin for Windows ignores the setting"
    sizes.setting_ignored(calico.mtu(), by=windows, followed_by=linux, node=node, because=because)
