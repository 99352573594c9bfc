# SPDX-License-Identifier: Apache-2.0
"""An empty pod selector selects every pod of the policy's namespace; a rule's empty namespace
selector selects every namespace.

The policy is in the second namespace of the run's worker, so that the pods of the worker's first
namespace stay open as controls. The policy selects pods of both operating systems. Therefore the
servers of each system are tested in a change of their own, with clients of the other system.
"""

from conformance.fixtures import OS, Case, Expect, Policy, WorkerPods
from conformance.marks import each_os, either_policy_api, other, verifies

LABEL = "the one rule admits this label in any namespace"
NO_LABEL = "the one rule does not admit this label"


@each_os("server_os")
@either_policy_api("whole_namespace")
@verifies("POL-1", part="{policy}: whole namespace, {server_os} server")
def test_friends_of_any_namespace_enter_each_pod_of_the_selected_one(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    servers = pods.elsewhere(server_os)
    not_selected = pods.servers(other(server_os))
    allowed_here = pods.clients(other(server_os))
    allowed_there = pods.elsewhere(other(server_os))
    others = pods.clients(server_os)
    expect.change(
        policy.filled(into=pods.namespace_elsewhere, friend=allowed_here),
        Case(allowed_here, servers, tcp=8080, open=True, because=LABEL),
        Case(allowed_there, servers, tcp=8080, open=True, because=LABEL),
        Case(others + servers, servers, tcp=8080, open=False, because=NO_LABEL),
        Case(
            others + servers,
            not_selected,
            tcp=8080,
            open=True,
            because="no policy selects these pods",
        ),
    )
    expect.removed(policy, because="without a policy everything is allowed")
