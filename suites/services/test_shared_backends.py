# SPDX-License-Identifier: Apache-2.0
"""Several Services have the same pods as backends: a change of one Service does not affect the
others, and an edited Service, or a new Service with its name, leads to its present backends."""

from conformance.fixtures import OS, Backends, PassingServices, Services, WorkerPods
from conformance.marks import about, each_os, manifest, needs, verifies

BOTH = "both Services have the same backends"
MOVED = "the other Service got another port, and this Service still has its backends"
TURNED = "only the other Service's target port was edited, and its backends answer on that port"
AGAIN = "a new Service has the name of the deleted Service"
GONE = "the other Service is gone, and this Service still has its backends"


@about("clusterip")
@each_os("server_os")
@manifest("services/cluster-ip.yaml")
@needs(linux=2, windows=2)
@verifies("CONN-4", part="shared {server_os} backends", provisional=True)
def test_a_service_keeps_its_backends_when_another_one_goes(
    pods: WorkerPods,
    services: Services,
    passing_services: PassingServices,
    backends: Backends,
    server_os: OS,
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers(server_os)
    kept = services.spread(servers).by_address
    (other,) = passing_services.come(servers)
    backends.all_used(clients, kept, other, because=BOTH)
    passing_services.get_another_port(servers)
    backends.all_used(clients, kept, because=MOVED)
    (other,) = passing_services.come(servers)
    backends.all_used(clients, other, because=BOTH)
    turned = passing_services.lead_to_another_port(servers)
    backends.all_used(clients, turned, because=TURNED)
    passing_services.remove()
    backends.all_used(clients, kept, because=GONE)
    (again,) = passing_services.come(servers)
    backends.all_used(clients, kept, again, because=AGAIN)
