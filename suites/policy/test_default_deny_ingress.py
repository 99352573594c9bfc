# SPDX-License-Identifier: Apache-2.0
"""A policy that selects a pod for ingress and has no rule admits no client, by TCP or UDP, and
affects no other pod.

Since no client reaches the server, the server itself connects to other pods: this shows that its
network works.
"""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import about, either_policy_api, verifies

LINUX = "linux server"
WINDOWS = "windows server"
NOT_SELECTED = "no policy selects clients"
NO_RULE = "a policy without rules selects these servers"


@about("tcp", "udp")
@either_policy_api("default_deny_ingress")
@verifies("POL-1", part="{policy}: default deny ingress, linux server")
@verifies("POL-1", part="{policy}: default deny ingress, windows server")
def test_nobody_enters_the_selected_pod(pods: WorkerPods, policy: Policy, expect: Expect) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    not_selected = pods.clients("linux").one_per_os() + pods.clients("windows").one_per_os()
    everybody = clients + linux + windows
    expect.change(
        policy.filled(server=linux + windows),
        Case(clients, linux, tcp=8080, udp=8080, open=False, part=LINUX, because=NO_RULE),
        Case(clients, linux, tcp=45000, open=False, part=LINUX, because=NO_RULE),
        Case(clients, windows, tcp=8080, udp=8080, open=False, part=WINDOWS, because=NO_RULE),
        Case(clients, windows, tcp=45000, open=False, part=WINDOWS, because=NO_RULE),
        Case(everybody, not_selected, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
    )
    expect.removed(policy, because="without a policy everything is allowed")
