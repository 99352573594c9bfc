"""An ingress rule with a namespace selector admits pods of those namespaces, and nobody else."""

from conformance.marks import each_os, either_policy_api, verifies

pytestmark = [verifies("POL-1", part="{policy}: ingress by namespace, {server_os} server")]


@each_os("server_os")
@either_policy_api("ingress_by_namespace")
def test_only_pods_of_the_selected_namespace_enter(pods, policy, expect, server_os):
    friends, strangers, (server, bystander) = pods.clients_elsewhere(), pods.clients("linux"), pods.servers(server_os)
    expect.control(strangers, [server.tcp(8080), bystander.tcp(8080)], because="no policy is in force yet")
    policy.apply(server=server)
    opened, closed = [(friends, server.tcp(8080)), (strangers, bystander.tcp(8080))], [(strangers, server.tcp(8080))]
    because = "only the other namespace has the label conformance/team=elsewhere"
    expect.matrix(open=opened, closed=closed, because=because)
