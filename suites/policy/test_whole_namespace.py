"""An empty pod selector selects every pod of the policy's namespace; a rule's empty namespace selector, any namespace.

The namespace is the worker's second one, so that the policy leaves the pods of its first one open as bystanders.
"""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import each_os, either_policy_api, other, verifies

pytestmark = [verifies("POL-1", part="{policy}: whole namespace, {server_os} server")]


@each_os("server_os")
@either_policy_api("whole_namespace")
def test_friends_of_any_namespace_enter_each_pod_of_the_selected_one(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    servers = pods.elsewhere(server_os)
    bystanders = pods.servers(other(server_os))
    friends = pods.clients(other(server_os)) + pods.elsewhere(other(server_os))
    strangers = pods.clients(server_os) + servers
    opened = [*friends.to(servers).tcp(8080), *strangers.to(bystanders).tcp(8080)]
    filled = policy.filled(into=pods.namespace_elsewhere, friend=friends)
    closed = strangers.to(servers).tcp(8080)
    because = (
        "whatever their namespace, the friends have the admitted label, and the strangers do not"
    )
    expect.change(filled, open=opened, closed=closed, because=because)
    expect.removed(policy, because="without a policy everything is allowed")
