# SPDX-License-Identifier: Apache-2.0
"""The VXLAN overlay carries traffic between nodes of both systems, and nothing on the way stops it."""

from conformance.fixtures import OS, Addresses, Expect, Overlay, Underlay, WorkerPods
from conformance.marks import needs, verifies, windows_directions


@verifies("VXLAN-1", part="{client_os}->{server_os} overlay")
@windows_directions(across_nodes=True)
def test_the_overlay_carries_pods_with_their_addresses(
    *,
    pods: WorkerPods,
    addresses: Addresses,
    expect: Expect,
    underlay: Underlay,
    client_os: OS,
    server_os: OS,
) -> None:
    ways = pods.clients(client_os).across(pods.servers(server_os)).tcp(8080)
    because = underlay.beside(
        "the overlay wraps packets of pods, and changes nothing inside them", ways
    )
    expect.sources(ways, are=addresses.of_pod, because=because)


@verifies("VXLAN-4")
@needs(host_network=True)
def test_udp_4789_passes_between_nodes(pods: WorkerPods, overlay: Overlay) -> None:
    linux = pods.clients("linux")
    windows = pods.clients("windows")
    there = linux.to(pods.servers("windows"))
    back = windows.to(pods.servers("linux"))
    within = linux.beside(pods.servers("linux")).tcp(8080) + windows.beside(
        pods.servers("windows")
    ).tcp(8080)
    between = there.tcp(8080) + back.tcp(8080)
    overlay.passes(
        between=between, within=within, node=pods.node(), because="firewalls let UDP 4789 through"
    )
