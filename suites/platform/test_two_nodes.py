# SPDX-License-Identifier: Apache-2.0
"""One Linux node, which is the control plane too, and one Windows node are enough for pods of both
to reach each other, and for the demo's policy."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, needs, verifies

ENOUGH = "without the operator, the documents require only these two nodes"
ALLOWED = "the policy allows the label linux-client in its own namespace"
NOT_ALLOWED = "the policy allows the label linux-client only in its own namespace"
NOT_SELECTED = "the policy selects only windows-server"
REMOVED = "without the policy everything is allowed"


@verifies("PLAT-13", part="paths")
def test_pods_of_both_nodes_reach_each_other(pods: WorkerPods, expect: Expect) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    expect.matrix(
        Case(pods.clients("linux"), windows, tcp=8080, open=True, because=ENOUGH),
        Case(pods.clients("windows"), linux, tcp=8080, open=True, because=ENOUGH),
    )


@verifies("PLAT-13", part="policy")
@manifest(
    "policy/demo/allow-linux-client.yaml",
    otherwise="policy/demo/allow-linux-client.kubernetes.yaml",
)
@needs(calico_policy=True)
def test_the_policy_of_the_demo_is_enforced(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    allowed = pods.clients("linux")
    others = pods.clients("windows")
    windows = pods.servers("windows")
    linux = pods.servers("linux")
    expect.change(
        policy.filled(),
        Case(allowed, windows, tcp=80, open=True, because=ALLOWED),
        Case(others, windows, tcp=80, open=False, because=NOT_ALLOWED),
        Case(others, linux, tcp=80, open=True, because=NOT_SELECTED),
    )
    expect.removed(policy, because=REMOVED)
