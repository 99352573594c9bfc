# SPDX-License-Identifier: Apache-2.0
"""A Service uses every ready backend and no unready backend; it stops using a removed backend, and
starts using a new backend."""

from conformance.fixtures import OS, Backends, Services, UnreadyServers, WorkerPods
from conformance.marks import about, begins_early, each_os, manifest, needs, verifies

pytestmark = [
    verifies("CONN-4", part="several {server_os} backends"),
    manifest("services/cluster-ip.yaml"),
]

ALL = "kube-proxy of the client's node spreads connections over all ready backends"
GONE = "kube-proxy of the client's node no longer uses a backend that is gone"
CAME = "kube-proxy of the client's node uses a backend that was added"


@begins_early()
@about("clusterip")
@each_os("server_os")
@needs(linux=2, windows=2)
def test_backends_are_used_while_they_are_there(
    pods: WorkerPods,
    services: Services,
    backends: Backends,
    unready_servers: UnreadyServers,
    server_os: OS,
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers(server_os)
    unready_servers.beside(servers)
    backends.all_used(clients, *services.spread(servers).by_both, because=ALL)
    backends.all_used(clients, *services.spread(servers.one_per_os()).by_both, because=GONE)
    backends.all_used(clients, *services.spread(servers).by_both, because=CAME)
