"""The fabric between nodes carries packets that have pods' addresses, in clouds where it does so only when told to."""

from conformance.fixtures import Fabric, WorkerPods
from conformance.marks import needs, verifies


@verifies("BGP-5")
@needs(host_network=True)
def test_the_fabric_passes_what_has_a_pods_address(pods: WorkerPods, fabric: Fabric) -> None:
    linux, windows = pods.clients("linux"), pods.clients("windows")
    there, back = linux.to(pods.servers("windows")), windows.to(pods.servers("linux"))
    within = linux.beside(pods.servers("linux")).tcp(8080) + windows.beside(pods.servers("windows")).tcp(8080)
    between = there.tcp(8080) + back.tcp(8080)
    fabric.passes(between=between, within=within, node=pods.node(), because="the source/destination check is off")
