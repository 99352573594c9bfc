# SPDX-License-Identifier: Apache-2.0
"""The VXLAN overlay carries traffic between nodes of both systems, and nothing between the nodes
blocks it."""

from conformance.fixtures import OS, Addresses, Case, Expect, Overlay, Underlay, WorkerPods
from conformance.marks import needs, verifies, windows_directions

WRAPPED = "the overlay encapsulates packets of pods and changes nothing inside them"
OPEN = "firewalls let UDP 4789 through"
WITHIN = "packets within a node do not cross the overlay"


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
    clients = pods.clients(client_os)
    servers = pods.servers(server_os)
    case = Case(clients, servers, on="other nodes", tcp=8080, open=True, because=WRAPPED)
    expect.sources(underlay.beside(case), are=addresses.of_pod)


@verifies("VXLAN-4")
@needs(host_network=True)
def test_udp_4789_passes_between_nodes(pods: WorkerPods, overlay: Overlay) -> None:
    linux_clients = pods.clients("linux")
    linux = pods.servers("linux")
    windows_clients = pods.clients("windows")
    windows = pods.servers("windows")
    overlay.passes(
        Case(linux_clients, windows, tcp=8080, open=True, because=OPEN),
        Case(windows_clients, linux, tcp=8080, open=True, because=OPEN),
        Case(
            linux_clients, linux, on="same node", tcp=8080, open=True, witness=True, because=WITHIN
        ),
        Case(
            windows_clients,
            windows,
            on="same node",
            tcp=8080,
            open=True,
            witness=True,
            because=WITHIN,
        ),
        node=pods.node(),
    )
