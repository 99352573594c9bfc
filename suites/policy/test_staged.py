"""A staged policy is planned and not enforced: what it would deny passes, by the policy that is enforced."""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import each_os, manifest, needs, verifies

pytestmark = [needs(calico_policy=True), manifest("policy/calico/staged_deny.yaml")]


@each_os("server_os")
@verifies("XPOL-14", part="{server_os} server")
def test_a_staged_deny_denies_nothing(pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS) -> None:
    clients, servers = pods.clients("linux") + pods.clients("windows"), pods.servers(server_os)
    because = "the policy that is enforced allows everybody, and the one before it is staged"
    expect.change(policy.filled(server=servers), open=clients.to(servers).tcp(8080), because=because)
    policy.remove()
