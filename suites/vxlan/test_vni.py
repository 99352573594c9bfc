"""The VNI is one that Windows can have."""

from conformance.marks import verifies


@verifies("XVX-1")
def test_the_vni_is_4096_or_higher(vxlan, requires, remedy):
    because = "Windows refuses to network a pod with a lower one: Windows does not support VXLANVNI < 4096"
    vni = vxlan.configured("vxlanVNI")
    requires.each(vni, lambda value: value >= 4096, "4096 or higher", because=because, do=remedy.felix("vxlanVNI"))
