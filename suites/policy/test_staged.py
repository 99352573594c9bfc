"""A staged policy is planned and not enforced: what it would deny passes, by the policy that is enforced."""

from conformance.fixtures import OS, Expect, Policy, Sides, WorkerPods
from conformance.marks import each_os, manifest, needs, verifies

pytestmark = [needs(calico_policy=True)]


@each_os("server_os")
@manifest("policy/calico/staged_deny.yaml")
@verifies("XPOL-14", part="{server_os} server")
def test_a_staged_deny_denies_nothing(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers(server_os)
    because = "the policy that is enforced allows everybody, and the one before it is staged"
    expect.change(
        policy.filled(server=servers), open=clients.to(servers).tcp(8080), because=because
    )
    policy.remove()


@needs(v3_api=True)
@manifest("policy/limits/staged_global.yaml")
@verifies("XPOL-14", part="StagedGlobalNetworkPolicy", provisional=True)
def test_a_staged_global_deny_denies_nothing(policy: Policy, sides: Sides, expect: Expect) -> None:
    because = "the policy that is enforced allows everybody, and the global one before it is staged"
    expect.change(policy.filled(), open=[*sides.opened, *sides.closed], because=because)


@needs(v3_api=True)
@manifest("policy/limits/staged_kubernetes.yaml")
@verifies("XPOL-14", part="StagedKubernetesNetworkPolicy", provisional=True)
def test_a_staged_kubernetes_policy_denies_nothing(
    policy: Policy, sides: Sides, expect: Expect
) -> None:
    because = (
        "the policy that is enforced allows everybody, and the Kubernetes one before it is staged"
    )
    expect.change(policy.filled(), open=[*sides.opened, *sides.closed], because=because)
