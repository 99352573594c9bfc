# SPDX-License-Identifier: Apache-2.0
"""A rule with a namespace selector and a pod selector admits the pods that match both; a match of
one selector alone is not enough."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import either_policy_api, verifies

LINUX = "linux server"
WINDOWS = "windows server"
BOTH = "the rule's selectors match both these clients' namespace and their label"
NOT_THE_NAMESPACE = "the rule's selectors match these clients' label but not their namespace"
NOT_THE_LABEL = "the rule's selectors match these clients' namespace but not their label"


@either_policy_api("ingress_by_both_selectors")
@verifies("POL-1", part="{policy}: ingress by both selectors, linux server")
@verifies("POL-1", part="{policy}: ingress by both selectors, windows server")
def test_only_what_both_selectors_select_enters(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    linux_elsewhere = pods.elsewhere("linux")
    windows_elsewhere = pods.elsewhere("windows")
    linux_here = pods.clients("linux")
    windows_here = pods.clients("windows")
    expect.change(
        policy.filled(server=linux, foe=windows_elsewhere),
        policy.filled(server=windows, foe=linux_elsewhere),
        Case(linux_elsewhere, linux, tcp=8080, open=True, part=LINUX, because=BOTH),
        Case(linux_here, linux, tcp=8080, open=False, part=LINUX, because=NOT_THE_NAMESPACE),
        Case(windows_elsewhere, linux, tcp=8080, open=False, part=LINUX, because=NOT_THE_LABEL),
        Case(windows_elsewhere, windows, tcp=8080, open=True, part=WINDOWS, because=BOTH),
        Case(windows_here, windows, tcp=8080, open=False, part=WINDOWS, because=NOT_THE_NAMESPACE),
        Case(linux_elsewhere, windows, tcp=8080, open=False, part=WINDOWS, because=NOT_THE_LABEL),
        Case(linux_here, windows_here, tcp=8080, open=True, because="no policy selects clients"),
        Case(windows_here, linux_here, tcp=8080, open=True, because="no policy selects clients"),
    )
    expect.removed(policy, because="without a policy everything is allowed")
