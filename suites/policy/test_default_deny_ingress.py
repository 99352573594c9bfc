"""A policy that selects a pod for ingress and has no rule lets nobody in, and concerns no other pod.

That the server, which nobody reaches, has a network at all is shown by what it reaches itself.
"""

from conformance.marks import each_os, either_policy_api, verifies

pytestmark = [verifies("POL-1", part="{policy}: default deny ingress, {server_os} server")]


@each_os("server_os")
@either_policy_api("default_deny_ingress")
def test_nobody_enters_the_selected_pod(pods, policy, expect, server_os):
    clients, (server, bystander) = pods.clients("linux"), pods.servers(server_os)
    expect.control(clients, server.tcp(8080), because="no policy is in force yet")
    expect.control([*clients, server], bystander.tcp(8080), because="no policy is in force yet")
    policy.apply(server=server)
    opened, closed = [([*clients, server], bystander.tcp(8080))], [(clients, server.tcp(8080))]
    expect.matrix(open=opened, closed=closed, because="a policy without rules selects this server, and no other")
