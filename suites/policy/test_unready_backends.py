"""A rule that names a Service is about all addresses of its EndpointSlices, ready or not."""

from conformance.fixtures import Expect, Policy, Services, UnreadyServers, WorkerPods
from conformance.marks import manifest, verifies


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
    backends = pods.servers("linux").one_per_os()
    unready = [unready_servers.beside(backends)]
    strangers = pods.servers("windows").one_per_os()
    ways = clients.to(unready).tcp(8080)
    filled = policy.filled(service=services.spread(backends + unready).name)
    because = "EndpointSlices have every backend, and the rule asks for none to be ready"
    expect.limitation(
        filled, as_documented={"open": ways}, lifted={"closed": ways},
        witness={"open": clients.to(backends).tcp(8080), "closed": clients.to(strangers).tcp(8080)}, because=because,
    )  # fmt: skip
