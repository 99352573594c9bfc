# SPDX-License-Identifier: Apache-2.0
"""A client stays with one backend if a Service requests session affinity: on Windows from Server
2022 on."""

from conformance.fixtures import Affinity, Services, WorkerPods
from conformance.marks import about, manifest, needs, verifies

STAYS = "HNS chooses the backend only by the client's address, which it can do from Server 2022 on"


@about("clusterip")
@manifest("services/session-affinity.yaml")
@needs(linux=2)
@verifies("XSVC-3")
def test_a_windows_client_stays_with_one_backend(
    pods: WorkerPods, services: Services, affinity: Affinity
) -> None:
    servers = pods.servers("linux")
    kept = services.over(servers, "session-affinity").by_address
    plain = services.spread(servers).by_address
    clients = pods.clients("windows")
    affinity.stays(clients, kept, plain, beside=pods.clients("linux"), because=STAYS)
