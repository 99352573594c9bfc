# SPDX-License-Identifier: Apache-2.0
"""A pod reaches itself through its own Service."""

from conformance.fixtures import Case, Expect, OwnService, Services, WindowsNodes, WorkerPods
from conformance.marks import about, manifest, verifies

pytestmark = [manifest("services/cluster-ip.yaml")]

LET_BACK = "with direct server return, Calico lets a Windows pod's traffic return to the pod itself"
TRANSLATED = (
    "kube-proxy on Linux translates the source of traffic that returns to the pod that sent it"
)


@about("clusterip")
@verifies("XSVC-1")
def test_the_only_windows_backend_reaches_its_own_cluster_ip(
    pods: WorkerPods, services: Services, windows_nodes: WindowsNodes, own_service: OwnService
) -> None:
    servers = pods.servers("windows").at(*windows_nodes.with_dsr())
    own_service.is_reached(services.to_themselves(servers), because=LET_BACK)


@about("clusterip")
@verifies("CONN-4", part="linux own service")
def test_the_only_linux_backend_reaches_its_own_cluster_ip(
    pods: WorkerPods, services: Services, expect: Expect
) -> None:
    servers = pods.servers("linux")
    expect.matrix(
        Case(
            servers,
            servers,
            on="itself",
            through=services.by_address,
            open=True,
            because=TRANSLATED,
        ),
        Case(
            servers,
            servers,
            on="itself",
            through=services.by_address_udp,
            open=True,
            because=TRANSLATED,
        ),
    )
