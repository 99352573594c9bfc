# SPDX-License-Identifier: Apache-2.0
"""The objects that represent Windows nodes have the entries that a platform, or BGP, needs."""

from conformance.fixtures import PlatformObjects, Readings
from conformance.marks import verifies


@verifies("EKS-1", part="setting")
def test_the_vpc_plugin_is_told_to_serve_windows(
    platform_objects: PlatformObjects, requires: Readings
) -> None:
    because = "without this setting the VPC resource controller gives Windows pods no addresses"
    do = "set enable-windows-ipam to true in ConfigMap kube-system/amazon-vpc-cni"
    requires.that(platform_objects.windows_ipam(), "true", because=because, do=do)


@verifies("EKS-1", part="addresses")
def test_every_windows_node_has_addresses_to_give(
    platform_objects: PlatformObjects, requires: Readings
) -> None:
    because = "every pod needs an address of the VPC, and the scheduler counts these addresses"
    do = "read the events of the node and of the VPC resource controller"
    read = platform_objects.vpc_addresses
    requires.that(
        read, (0).__lt__, "1 or more", on=platform_objects.windows, because=because, do=do
    )


@verifies("BGP-4")
def test_no_windows_node_is_a_route_reflector(
    platform_objects: PlatformObjects, requires: Readings
) -> None:
    because = "Windows' BGP router reflects no routes, so its clients have no routes to each other"
    do = "remove the node's routeReflectorClusterID (calicoctl patch node)"
    nodes = platform_objects.windows
    requires.that(platform_objects.reflector, "none", on=nodes, because=because, do=do)
