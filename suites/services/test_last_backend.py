# SPDX-License-Identifier: Apache-2.0
"""A Service without its last backend does not answer. It leads to its backends again once they are
back."""

from conformance.fixtures import OS, Backends, Case, Expect, PassingServices, WorkerPods
from conformance.marks import about, each_os, verifies


@about("clusterip")
@each_os("server_os")
@verifies("CONN-4", part="last {server_os} backends away and back", provisional=True)
def test_a_service_leads_to_its_backends_again_once_they_are_back(
    pods: WorkerPods,
    passing_services: PassingServices,
    backends: Backends,
    expect: Expect,
    server_os: OS,
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers(server_os)
    (front,) = passing_services.come(servers)
    expect.matrix(Case(clients, front, open=True, because="the Service has backends"))
    passing_services.lose_backends(servers)
    backends.none(clients, front, because="the Service no longer selects any pod")
    passing_services.come(servers)
    expect.matrix(Case(clients, front, open=True, because="the Service has the same pods again"))
