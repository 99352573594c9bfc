# SPDX-License-Identifier: Apache-2.0
"""Backends that are not ready are used if a Service requests it; a backend that becomes unready is
left out, and used again once it is ready."""

from conformance.fixtures import (
    OS,
    Backends,
    OwnBackends,
    Services,
    UnreadyServers,
    WorkerPods,
)
from conformance.marks import about, each_os, manifest, verifies

NOT_READY_TOO = "the Service also publishes the addresses of pods that are not ready"
READY = "the pod is ready"
UNREADY = "the pod is no longer ready"
AGAIN = "the pod is ready again"


@about("clusterip")
@each_os("server_os")
@manifest("services/not-ready-too.yaml")
@verifies("CONN-4", part="{server_os} backends that are not ready", provisional=True)
def test_a_service_that_asks_for_it_uses_backends_that_are_not_ready(
    *,
    pods: WorkerPods,
    services: Services,
    backends: Backends,
    unready_servers: UnreadyServers,
    server_os: OS,
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers(server_os)
    unready = unready_servers.beside(servers)
    front = services.over(servers.and_also(unready), "not-ready-too")
    backends.all_used(clients, front.by_address, because=NOT_READY_TOO)


@about("clusterip")
@each_os("server_os")
@manifest("services/cluster-ip.yaml")
@verifies("XSVC-9", part="{server_os} backend")
def test_a_backend_is_used_again_once_it_is_ready_again(
    pods: WorkerPods,
    services: Services,
    backends: Backends,
    own_backends: OwnBackends,
    server_os: OS,
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers(server_os)
    gated = own_backends.beside(servers)
    with_it = services.spread(servers.and_also(gated)).by_address
    own_backends.become(gated, ready=True)
    backends.all_used(clients, with_it, because=READY)
    own_backends.become(gated, ready=False)
    backends.all_used(clients, services.spread(servers).by_address, because=UNREADY)
    own_backends.become(gated, ready=True)
    backends.all_used(clients, with_it, because=AGAIN)
