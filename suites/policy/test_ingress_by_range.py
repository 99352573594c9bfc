"""Ingress rules with ranges of ports open every port of the ranges, the last one too, and none before or after.

Rules for service accounts are for the pods that have them.
"""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import about, each_os, manifest, needs, verifies

pytestmark = [needs(calico_policy=True), manifest("policy/calico/ingress_by_range.yaml")]


@about("tcp")
@each_os("server_os")
@verifies("POL-1", part="calico: ingress by range, {server_os} server")
def test_only_the_ports_of_the_ranges_are_open(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers(server_os)
    filled = policy.filled(server=servers)
    ways = clients.to(servers)
    because = (
        "80 is the last port of a range for the account of all pods; 8080 lies between two of them, one beyond the "
        "first and one before the other, and is open to an account that no pod has"
    )
    expect.change(filled, open=ways.tcp(80), closed=ways.tcp(8080), because=because)
    expect.removed(policy, because="without a policy everything is allowed")
