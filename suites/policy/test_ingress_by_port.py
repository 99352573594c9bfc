"""Ingress rules with a protocol and a port open that port of that protocol to everybody, and nothing else."""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import about, each_os, either_policy_api, verifies

pytestmark = [verifies("POL-1", part="{policy}: ingress by port, {server_os} server")]


@about("tcp", "udp")
@each_os("server_os")
@either_policy_api("ingress_by_port")
def test_only_the_allowed_port_is_open(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers(server_os)
    filled = policy.filled(server=servers)
    ways = clients.to(servers)
    because = "the rules allow TCP 80 and UDP 8080 from anywhere: TCP 8080 has one's protocol and the other's port"
    expect.change(
        filled, open=[*ways.tcp(80), *ways.udp(8080)], closed=ways.tcp(8080), because=because
    )
    expect.removed(policy, because="without a policy everything is allowed")
