"""A GlobalNetworkPolicy concerns what its selectors name, in every namespace, and nothing else."""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import each_os, manifest, needs, verifies

pytestmark = [needs(calico_policy=True), manifest("policy/calico/global_deny.yaml")]


@each_os("server_os")
@verifies("POL-1", part="calico: global policy, {server_os} server")
def test_only_the_selected_namespace_is_closed(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    sources = pods.servers("linux") + pods.servers("windows")
    selected = pods.clients(server_os)
    namesakes = pods.elsewhere(server_os)
    opened = (sources + selected).to(namesakes).tcp(8080)
    closed = sources.to(selected).tcp(8080)
    because = "the policy selects this label in this namespace; its namesakes are in another"
    expect.change(policy.filled(server=selected), open=opened, closed=closed, because=because)
    expect.removed(policy, because="without a policy everything is allowed")
