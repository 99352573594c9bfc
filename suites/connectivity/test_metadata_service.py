# SPDX-License-Identifier: Apache-2.0
"""A Windows host may lose its route to the cloud's metadata service when the virtual switch is
created. A program in a HostProcess pod connects from the host, and exchanges only the TCP
handshake."""

from conformance.fixtures import HostAttempts, MetadataService, Services, WorkerPods
from conformance.marks import needs, verifies

LOST = "the creation of the virtual switch can remove the route to the metadata service"


@verifies("META-1")
@needs(host_process=True)
def test_a_windows_host_may_lose_the_metadata_service(
    pods: WorkerPods,
    services: Services,
    host_attempts: HostAttempts,
    metadata_service: MetadataService,
) -> None:
    hosts = pods.clients("windows")
    control = services.by_node_port(pods.server("linux"))
    host_attempts.may_lack(hosts, metadata_service, control=control, because=LOST)
