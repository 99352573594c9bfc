# SPDX-License-Identifier: Apache-2.0
"""Windows nodes take part in BGP: RemoteAccess runs, every session is up, and they announce only
their own blocks."""

from conformance.fixtures import BgpFacts, Case, Expect, Readings, WorkerPods
from conformance.marks import needs, verifies

CONFD = (
    "read the log of container confd in the node's calico-node-windows (after a manual installation: of service "
    "CalicoConfd), then run Get-BgpPeer on the host; Calico v3.30.3 to v3.30.7, v3.31.0 to v3.31.4, v3.32.0 and "
    "v3.32.1 configure no BGP on Windows (calico#11714, #13139)"
)


@verifies("BGP-6")
@needs(host_process=True)
def test_remote_access_runs_on_every_windows_node(
    pods: WorkerPods, bgp: BgpFacts, requires: Readings
) -> None:
    because = "a Windows node runs BGP in its service RemoteAccess"
    do = "Install-WindowsFeature Routing; Install-RemoteAccess -VpnType RoutingOnly; Start-Service RemoteAccess"
    requires.that(
        bgp.service, "Running", on=pods.ensure_ready("windows-server"), because=because, do=do
    )


@verifies("BGP-1")
@needs(host_process=True)
def test_every_windows_node_has_a_session_with_every_node(
    pods: WorkerPods, bgp: BgpFacts, requires: Readings
) -> None:
    because = "in the mesh all nodes are peers of each other, without further configuration"
    requires.that(
        bgp.sessions, "Connected", on=pods.ensure_ready("windows-server"), because=because, do=CONFD
    )


@verifies("BGP-8")
@needs(host_process=True)
def test_every_windows_node_learns_blocks_from_a_linux_reflector(
    pods: WorkerPods, bgp: BgpFacts, requires: Readings, expect: Expect
) -> None:
    because = "a Linux node with a reflector's cluster id passes on what it learns from its clients"
    do = (
        "annotate the Linux node with projectcalico.org/RouteReflectorClusterID; then check that "
        "/etc/calico/confd/config/bird.cfg in its calico-node contains 'rr client' for each client"
    )
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    requires.that(bgp.reflected, bgp.BY_A_REFLECTOR, on=windows, because=because, do=do)
    expect.matrix(
        Case(pods.clients("linux"), windows, tcp=8080, open=True, because=because),
        Case(pods.clients("windows"), linux, tcp=8080, open=True, because=because),
    )


@verifies("BGP-2")
@needs(host_process=True)
def test_every_router_that_a_windows_node_is_to_peer_with_is_its_peer(
    pods: WorkerPods, bgp: BgpFacts, requires: Readings
) -> None:
    because = (
        "a BGPPeer that selects a Windows node makes the router the node's peer, and the router "
        "announces a network"
    )
    do = "run Get-BgpPeer on the node, and compare the addresses and AS numbers of both ends"
    requires.that(
        bgp.external, "Connected", on=pods.ensure_ready("windows-server"), because=because, do=do
    )


@verifies("XBGP-1")
@needs(host_process=True)
def test_every_windows_node_announces_its_blocks_and_nothing_else(
    pods: WorkerPods, bgp: BgpFacts, requires: Readings
) -> None:
    because = "confd's template for Windows contains only the node's confirmed IPv4 blocks"
    windows = pods.ensure_ready("windows-server")
    requires.that(
        bgp.announced, bgp.OWN, on=windows, lifted=bgp.announces_more, because=because, do=CONFD
    )


@verifies("SVC-3")
@needs(host_process=True)
def test_no_windows_node_announces_a_service_network(
    pods: WorkerPods, bgp: BgpFacts, requires: Readings
) -> None:
    because = "Calico advertises Services only from Linux nodes"
    windows = pods.ensure_ready("windows-server")
    requires.that(bgp.services, [], "none", on=windows, lifted=bool, because=because, do=CONFD)
