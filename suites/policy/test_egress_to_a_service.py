"""An egress rule that names a Service opens the way to its backends, as far as the rule's other matches allow."""

from conformance.fixtures import OS, Expect, Policy, Services, WorkerPods
from conformance.marks import each_os, manifest, needs, other, verifies

pytestmark = [needs(calico_policy=True), manifest("policy/calico/egress_to_a_service.yaml")]

REMOVED = "without a policy everything is allowed"


@each_os("client_os")
@verifies("XPOL-7", part="backends, {client_os} client")
def test_only_the_services_backends_are_reached(
    pods: WorkerPods, services: Services, policy: Policy, expect: Expect, client_os: OS
) -> None:
    clients = pods.clients(client_os)
    bystanders = pods.clients(other(client_os))
    backend, stranger = pods.get("linux-server", "windows-server")
    filled = policy.filled(
        client=clients, service=services.cluster_ip(backend).name, protocol="TCP"
    )
    opened = [(clients, backend.tcp(8080)), (bystanders, stranger.tcp(8080))]
    because = "the one rule allows TCP to the Service's only backend"
    expect.change(filled, open=opened, closed=[(clients, stranger.tcp(8080))], because=because)
    expect.removed(policy, because=REMOVED)


@each_os("client_os")
@verifies("XPOL-7", part="protocol, {client_os} client")
def test_the_rules_protocol_counts_too(
    pods: WorkerPods, services: Services, policy: Policy, expect: Expect, client_os: OS
) -> None:
    clients = pods.clients(client_os)
    bystanders = pods.clients(other(client_os))
    (backend,) = pods.get("linux-server")
    filled = policy.filled(
        client=clients, service=services.cluster_ip(backend).name, protocol="UDP"
    )
    because = "the rule allows UDP to the backend and matches no TCP, and nothing else allows any"
    opened = [(bystanders, backend.tcp(8080))]
    closed = [(clients, backend.tcp(8080))]
    expect.change(filled, open=opened, closed=closed, because=because)
    expect.removed(policy, because=REMOVED)
