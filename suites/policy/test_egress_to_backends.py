"""An egress rule that selects pods opens the way to them, by their addresses and by a Service in front of them."""

from conformance.fixtures import OS, Expect, Policy, Services, WorkerPods
from conformance.marks import each_os, either_policy_api, other, verifies

pytestmark = [
    verifies("POL-1", part="{policy}: egress to a Service's backends, {client_os} client")
]


@each_os("client_os")
@either_policy_api("egress_to_backends")
def test_only_the_selected_backends_are_reached(
    pods: WorkerPods, services: Services, policy: Policy, expect: Expect, client_os: OS
) -> None:
    clients = pods.clients(client_os)
    bystanders = pods.clients(other(client_os))
    allowed = clients.to(pods.servers("linux"))
    others = clients.to(pods.servers("windows"))
    beside = bystanders.to(others.servers)
    opened = [*services.both_ways(allowed, 8080), *services.both_ways(beside, 8080)]
    because = (
        "the one rule selects Linux backends, and policies see backends behind a Service's address"
    )
    filled = policy.filled(client=clients, server=allowed.servers)
    closed = services.both_ways(others, 8080)
    expect.change(filled, open=opened, closed=closed, because=because)
    expect.removed(policy, because="without a policy everything is allowed")
