"""A rule that names a port opens the port that a Linux pod calls so; Windows skips such rules (XPOL-4)."""

from conformance.fixtures import Expect, Policy, WorkerPods
from conformance.marks import about, either_policy_api, verifies


@about("tcp", "udp")
@verifies("POL-1", part="{policy}: ingress by a port's name, linux server")
@either_policy_api("ingress_by_port_name")
def test_only_the_port_of_that_name_is_open(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers("linux")
    filled = policy.filled(server=servers)
    ways = clients.to(servers)
    because = "the pods call TCP 8080 echo; TCP 80 and UDP 8080 have no name there"
    expect.change(
        filled, open=ways.tcp(8080), closed=[*ways.tcp(80), *ways.udp(8080)], because=because
    )
    expect.removed(policy, because="without a policy everything is allowed")
