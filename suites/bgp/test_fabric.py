# SPDX-License-Identifier: Apache-2.0
"""The fabric between nodes carries packets with pods' addresses, in clouds only where it is
configured to."""

from conformance.fixtures import Case, Fabric, FlannelFabric, WorkerPods
from conformance.marks import needs, verifies

OPEN = "the source/destination check is off"
WITHIN = "packets within a node do not cross the fabric"


@verifies("BGP-5", part="the fabric", applies={"modes": ["bgp"]})
@needs(host_network=True)
def test_the_fabric_passes_what_has_a_pods_address(pods: WorkerPods, fabric: Fabric) -> None:
    linux_clients = pods.clients("linux")
    linux = pods.servers("linux")
    windows_clients = pods.clients("windows")
    windows = pods.servers("windows")
    fabric.passes(
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


@verifies(
    "BGP-5",
    part="the fabric under flannel",
    applies={"cnis": ["flannel"], "windows_plane": ["l2bridge"]},
)
@needs(host_network=True)
def test_the_fabric_passes_what_has_a_pods_address_where_flannel_lays_the_routes(
    pods: WorkerPods, flannel_fabric: FlannelFabric
) -> None:
    linux_clients = pods.clients("linux")
    linux = pods.servers("linux")
    windows_clients = pods.clients("windows")
    windows = pods.servers("windows")
    flannel_fabric.passes(
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
