"""The VXLAN overlay carries traffic between nodes of both systems, and nothing on the way stops it."""

import pytest

from conformance.marks import needs, verifies


@verifies("VXLAN-1", part="{client_os}->{server_os} overlay")
@pytest.mark.parametrize(
    ("client_os", "server_os"),
    [
        pytest.param("linux", "windows", id="linux-to-windows"),
        pytest.param("windows", "linux", id="windows-to-linux"),
        pytest.param("windows", "windows", id="windows-to-windows", marks=needs(windows=2)),
    ],
)
def test_the_overlay_carries_pods_with_their_addresses(pods, expect, client_os, server_os):
    client, server = pods.pair(client_os, server_os)
    because = "the overlay wraps packets of pods, and changes nothing inside them"
    expect.source_is(client, server.tcp(8080), client.address, because=because)


@verifies("VXLAN-4")
@needs(host_network=True)
def test_udp_4789_passes_between_nodes(pods, overlay):
    node, linux, windows = pods.of("linux-node", "linux-client", "windows-client")
    linux_server, windows_server = pods.servers("linux")
    between = [(linux, windows_server.tcp(8080)), (windows, linux_server.tcp(8080))]
    within = [(linux, linux_server.tcp(8080)), (windows, windows_server.tcp(8080))]
    overlay.passes(between=between, within=within, node=node, because="firewalls let UDP 4789 through")
