"""An ingress rule with a namespace selector admits pods of those namespaces, and nobody else."""

from conformance.fixtures import OS, Expect, Policy, WorkerPods
from conformance.marks import each_os, either_policy_api, other, verifies

pytestmark = [verifies("POL-1", part="{policy}: ingress by namespace, {server_os} server")]


@each_os("server_os")
@either_policy_api("ingress_by_namespace")
def test_only_pods_of_the_selected_namespace_enter(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    friends = pods.elsewhere("linux") + pods.elsewhere("windows")
    strangers = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers(server_os)
    bystanders = pods.servers(other(server_os))
    opened = [*friends.to(servers).tcp(8080), *strangers.to(bystanders).tcp(8080)]
    filled = policy.filled(server=servers)
    closed = strangers.to(servers).tcp(8080)
    because = "only the other namespace has the label conformance/team=elsewhere"
    expect.change(filled, open=opened, closed=closed, because=because)
    expect.removed(policy, because="without a policy everything is allowed")
