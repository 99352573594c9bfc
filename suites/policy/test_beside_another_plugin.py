# SPDX-License-Identifier: Apache-2.0
"""Calico also enforces policies where win-bridge or a plugin built on it networks the pods."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, verifies

ALLOWED = "the policy allows linux-client, and Felix programs its rules on the plugin's endpoints"
NOT_ALLOWED = "the policy allows linux-client only in its own namespace"


@verifies("CP-1", part="ingress")
@manifest("policy/demo/allow-linux-client.kubernetes.yaml")
def test_a_policy_guards_windows_pods_that_another_plugin_networks(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    allowed = pods.clients("linux")
    others = pods.clients("windows") + pods.elsewhere("linux")
    windows = pods.servers("windows")
    linux = pods.servers("linux")
    expect.change(
        policy.filled(),
        Case(allowed, windows, tcp=80, open=True, because=ALLOWED),
        Case(others, windows, tcp=80, open=False, because=NOT_ALLOWED),
        Case(others, linux, tcp=80, open=True, because="no policy selects Linux servers"),
    )
    expect.removed(policy, because="without the policy everything is allowed")
