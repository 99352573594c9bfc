# SPDX-License-Identifier: Apache-2.0
"""A policy that selects a pod for egress and has no rule lets the pod reach no peer, inside or
outside the cluster; other pods still reach their peers.

The other pods have the same labels in another namespace. The selected pod itself can open no
connection, so other pods connect to it: this shows that its network works.
"""

from conformance.fixtures import Case, Expect, ExternalPaths, Policy, WorkerPods
from conformance.marks import about, either_policy_api, verifies

LINUX = "linux client"
WINDOWS = "windows client"
NO_RULE = "a policy without rules selects these clients"
NOT_SELECTED = "no policy selects pods of the other namespace, whatever their labels"


@about("tcp", "udp")
@either_policy_api("default_deny_egress")
@verifies("POL-1", part="{policy}: default deny egress, linux client")
@verifies("POL-1", part="{policy}: default deny egress, windows client")
def test_the_selected_pod_reaches_nobody(
    pods: WorkerPods, policy: Policy, expect: Expect, external: ExternalPaths
) -> None:
    linux = pods.clients("linux")
    windows = pods.clients("windows")
    namesakes = pods.elsewhere("linux") + pods.elsewhere("windows")
    servers = pods.servers("linux") + pods.servers("windows")
    outside = external.target_of(linux + windows + namesakes)
    expect.change(
        policy.filled(client=linux + windows),
        Case(linux, servers, tcp=8080, udp=8080, open=False, part=LINUX, because=NO_RULE),
        Case(linux, outside, optional=True, open=False, part=LINUX, because=NO_RULE),
        Case(windows, servers, tcp=8080, udp=8080, open=False, part=WINDOWS, because=NO_RULE),
        Case(windows, outside, optional=True, open=False, part=WINDOWS, because=NO_RULE),
        Case(namesakes, servers, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
        Case(namesakes, linux + windows, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
        Case(namesakes, outside, optional=True, open=True, because=NOT_SELECTED),
    )
    expect.removed(policy, because="without a policy everything is allowed")
