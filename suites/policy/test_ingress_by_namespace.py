# SPDX-License-Identifier: Apache-2.0
"""An ingress rule with a namespace selector admits pods of those namespaces, and no other
client."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import either_policy_api, verifies

LINUX = "linux server"
WINDOWS = "windows server"
SELECTED = "the one rule selects namespaces with the label conformance/team=elsewhere"
NOT_SELECTED = "the servers' own namespace does not have the label conformance/team=elsewhere"


@either_policy_api("ingress_by_namespace")
@verifies("POL-1", part="{policy}: ingress by namespace, linux server")
@verifies("POL-1", part="{policy}: ingress by namespace, windows server")
def test_only_pods_of_the_selected_namespace_enter(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    elsewhere = pods.elsewhere("linux") + pods.elsewhere("windows")
    here = pods.clients("linux") + pods.clients("windows")
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    expect.change(
        policy.filled(server=linux + windows),
        Case(elsewhere, linux, tcp=8080, open=True, part=LINUX, because=SELECTED),
        Case(here, linux, tcp=8080, open=False, part=LINUX, because=NOT_SELECTED),
        Case(elsewhere, windows, tcp=8080, open=True, part=WINDOWS, because=SELECTED),
        Case(here, windows, tcp=8080, open=False, part=WINDOWS, because=NOT_SELECTED),
        Case(here, elsewhere, tcp=8080, open=True, because="no policy selects clients"),
    )
    expect.removed(policy, because="without a policy everything is allowed")
