# SPDX-License-Identifier: Apache-2.0
"""A Service without a selector leads to the addresses in the EndpointSlices that name it."""

from conformance.fixtures import OS, Backends, OwnBackends, WorkerPods
from conformance.marks import about, each_os, manifest, verifies

NAMED = "the EndpointSlice names these pods"
OTHERS = "the EndpointSlice now names another pod"


@about("clusterip")
@each_os("server_os")
@manifest("services/without-selector.yaml")
@verifies("XSVC-8", part="{server_os} backends")
def test_a_service_without_a_selector_leads_to_what_its_slice_names(
    pods: WorkerPods, backends: Backends, own_backends: OwnBackends, server_os: OS
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers(server_os)
    front = own_backends.without_selector(servers)
    backends.all_used(clients, *front.by_both, because=NAMED)
    last = own_backends.without_selector(servers.one_per_os())
    backends.all_used(clients, last.by_address, because=OTHERS)
