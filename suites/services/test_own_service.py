"""A Windows pod reaches itself through its own Service."""

from conformance.fixtures import OwnService, Services, WindowsNodes, WorkerPods
from conformance.marks import manifest, verifies

pytestmark = [verifies("XSVC-1"), manifest("services/cluster-ip.yaml")]


def test_the_only_backend_reaches_its_own_cluster_ip(
    pods: WorkerPods, services: Services, windows_nodes: WindowsNodes, own_service: OwnService
) -> None:
    servers = pods.servers("windows").at(*windows_nodes.with_dsr())
    because = "under direct server return Calico lets a Windows pod's traffic come back to itself"
    own_service.is_reached(services.to_themselves(servers), because=because)
