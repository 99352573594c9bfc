# SPDX-License-Identifier: Apache-2.0
"""A staged policy is planned and not enforced: traffic that it would deny passes, because the
enforced policy allows it."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, needs, verifies

pytestmark = [needs(calico_policy=True)]

LINUX = "linux server"
WINDOWS = "windows server"
STAGED = "the enforced policy allows everybody; the policy that precedes it is only staged"
STAGED_GLOBAL = (
    "the enforced policy allows everybody; the global policy that precedes it is only staged"
)
STAGED_KUBERNETES = (
    "the enforced policy allows everybody; the Kubernetes policy that precedes it is only staged"
)
NOT_SELECTED = "no policy, staged or enforced, selects this client"


@manifest("policy/calico/staged_deny.yaml")
@verifies("XPOL-14", part="linux server")
@verifies("XPOL-14", part="windows server")
def test_a_staged_deny_denies_nothing(pods: WorkerPods, policy: Policy, expect: Expect) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    expect.change(
        policy.filled(server=linux + windows),
        Case(clients, linux, tcp=8080, open=True, part=LINUX, because=STAGED),
        Case(clients, windows, tcp=8080, open=True, part=WINDOWS, because=STAGED),
    )
    policy.remove()


@needs(v3_api=True)
@manifest("policy/limits/staged_global.yaml")
@verifies("XPOL-14", part="StagedGlobalNetworkPolicy", provisional=True)
def test_a_staged_global_deny_denies_nothing(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    client = pods.clients("linux").one_per_os()
    clients = client + pods.clients("windows")
    servers = pods.servers("linux") + pods.servers("windows")
    expect.change(
        policy.filled(),
        Case(clients, servers, tcp=8080, udp=8080, open=True, because=STAGED_GLOBAL),
        Case(clients, client, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
    )


@needs(v3_api=True)
@manifest("policy/limits/staged_kubernetes.yaml")
@verifies("XPOL-14", part="StagedKubernetesNetworkPolicy", provisional=True)
def test_a_staged_kubernetes_policy_denies_nothing(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    client = pods.clients("linux").one_per_os()
    clients = client + pods.clients("windows")
    servers = pods.servers("linux") + pods.servers("windows")
    expect.change(
        policy.filled(),
        Case(clients, servers, tcp=8080, udp=8080, open=True, because=STAGED_KUBERNETES),
        Case(clients, client, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
    )
