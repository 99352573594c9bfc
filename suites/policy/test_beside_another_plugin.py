"""Where win-bridge or a plugin built on it networks the pods, Calico enforces policies all the same."""

from conformance.fixtures import Expect, Policy, WorkerPods
from conformance.marks import manifest, verifies


@verifies("CP-1", part="ingress")
@manifest("policy/demo/allow-linux-client.kubernetes.yaml")
def test_a_policy_guards_windows_pods_that_another_plugin_networks(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    friends = pods.clients("linux")
    strangers = pods.clients("windows") + pods.elsewhere("linux")
    servers = pods.servers("windows")
    others = pods.servers("linux")
    opened = [*friends.to(servers).tcp(80), *strangers.to(others).tcp(80)]
    because = (
        "the policy allows linux-client alone, and Felix lays its rules on the plugin's endpoints"
    )
    expect.change(
        policy.filled(), open=opened, closed=strangers.to(servers).tcp(80), because=because
    )
    expect.removed(policy, because="without the policy everything is allowed")
