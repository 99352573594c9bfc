"""Calico's default deny closes what clusters often need, too: port 53, by TCP and by UDP, and ping."""

from conformance.fixtures import Beyond, Expect, Policy, WorkerPods
from conformance.marks import about, manifest, needs, verifies


@about("tcp", "udp")
@needs(calico_policy=True)
@manifest("policy/calico/no_client_reaches_anybody.yaml")
@verifies("POL-1", part="calico: default deny egress, port 53 and ping", provisional=True)
def test_who_reaches_nobody_reaches_port_53_no_more_and_pings_nobody(
    pods: WorkerPods, policy: Policy, expect: Expect, beyond: Beyond
) -> None:
    servers = pods.servers("linux")
    bystanders = pods.servers("windows")
    ways = (pods.clients("linux") + pods.clients("windows")).to(servers)
    beyond.before(ways.one_per_build())
    opened = bystanders.to(servers).tcp_and_udp(53)
    because = "a policy without rules makes no exception"
    expect.change(policy.filled(), open=opened, closed=ways.tcp_and_udp(53), because=because)
    beyond.ping(ways.one_per_build(), because=because, want=False)
    expect.removed(policy, because="without a policy everything is allowed")
