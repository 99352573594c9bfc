# SPDX-License-Identifier: Apache-2.0
"""An ingress rule with a pod selector admits the pods that it selects, by TCP and UDP, and no other
client.

The other clients are other pods, and pods with the same labels in another namespace on the allowed
clients' own nodes.
"""

from conformance.fixtures import OS, Case, Expect, Policy, WorkerPods
from conformance.marks import about, each_os, either_policy_api, other, verifies

TO_LINUX = "to linux"
TO_WINDOWS = "to windows"
LABEL = "the one rule allows this label, in the policy's own namespace"
NO_LABEL = "no rule allows this label"
ELSEWHERE = "the rule does not select pods of another namespace, whatever their labels"


@about("tcp", "udp")
@each_os("client_os")
@either_policy_api("ingress_by_selector")
@verifies("POL-1", part="{policy}: ingress by selector, {client_os} to linux")
@verifies("POL-1", part="{policy}: ingress by selector, {client_os} to windows")
def test_only_the_selected_client_enters(
    pods: WorkerPods, policy: Policy, expect: Expect, client_os: OS
) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    allowed = pods.clients(client_os)
    others = pods.clients(other(client_os))
    away = pods.elsewhere(client_os)
    expect.change(
        policy.filled(server=linux + windows, friend=allowed),
        Case(allowed, linux, tcp=8080, udp=8080, open=True, part=TO_LINUX, because=LABEL),
        Case(others, linux, tcp=8080, udp=8080, open=False, part=TO_LINUX, because=NO_LABEL),
        Case(away, linux, tcp=8080, udp=8080, open=False, part=TO_LINUX, because=ELSEWHERE),
        Case(allowed, windows, tcp=8080, udp=8080, open=True, part=TO_WINDOWS, because=LABEL),
        Case(others, windows, tcp=8080, udp=8080, open=False, part=TO_WINDOWS, because=NO_LABEL),
        Case(away, windows, tcp=8080, udp=8080, open=False, part=TO_WINDOWS, because=ELSEWHERE),
        Case(others + away, allowed, tcp=8080, open=True, because="no policy selects clients"),
    )
    expect.removed(policy, because="without a policy everything is allowed")
