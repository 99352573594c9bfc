# SPDX-License-Identifier: Apache-2.0
"""A rule that names a Service applies to all addresses of its EndpointSlices, ready or not."""

from conformance.fixtures import Case, Expect, Policy, Services, UnreadyServers, WorkerPods
from conformance.marks import manifest, verifies

UNREADY = "EndpointSlices contain every backend, and the rule does not require backends to be ready"
READY = "the rule allows this backend of the Service"
NO_BACKEND = "the one rule allows only the Service's backends"


@manifest("policy/limits/egress_to_a_service.yaml")
@verifies("XPOL-20")
def test_a_backend_that_is_not_ready_is_reached(
    pods: WorkerPods,
    services: Services,
    unready_servers: UnreadyServers,
    policy: Policy,
    expect: Expect,
) -> None:
    clients = pods.clients("linux").one_per_os() + pods.clients("windows")
    ready = pods.servers("linux").one_per_os()
    unready = [unready_servers.beside(ready)]
    no_backends = pods.servers("windows").one_per_os()
    expect.limitation(
        policy.filled(service=services.spread(ready + unready).name),
        Case(clients, unready, tcp=8080, open=True, because=UNREADY),
        Case(clients, ready, tcp=8080, open=True, witness=True, because=READY),
        Case(clients, no_backends, tcp=8080, open=False, witness=True, because=NO_BACKEND),
    )
