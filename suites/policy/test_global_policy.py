# SPDX-License-Identifier: Apache-2.0
"""A GlobalNetworkPolicy applies to the pods that its selectors match, in every namespace, and to no
other."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, needs, verifies

LINUX = "linux server"
WINDOWS = "windows server"
SELECTED = "the policy selects this label in this namespace, and has no rule"
NOT_SELECTED = "the policy does not select this label in another namespace"


@needs(calico_policy=True)
@manifest("policy/calico/global_deny.yaml")
@verifies("POL-1", part="calico: global policy, linux server")
@verifies("POL-1", part="calico: global policy, windows server")
def test_only_the_selected_namespace_is_closed(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    sources = pods.servers("linux") + pods.servers("windows")
    linux = pods.clients("linux")
    windows = pods.clients("windows")
    namesakes = pods.elsewhere("linux") + pods.elsewhere("windows")
    everybody = sources + linux + windows
    expect.change(
        policy.filled(server=linux + windows),
        Case(sources, linux, tcp=8080, open=False, part=LINUX, because=SELECTED),
        Case(sources, windows, tcp=8080, open=False, part=WINDOWS, because=SELECTED),
        Case(everybody, namesakes, tcp=8080, open=True, because=NOT_SELECTED),
    )
    expect.removed(policy, because="without a policy everything is allowed")
