"""A policy that selects a pod for egress and has no rule lets it reach nobody, and concerns no other pod.

What reaches nobody has no open way of its own: that it has a network at all is shown by a bystander, which reaches it.
"""

from conformance.marks import each_os, either_policy_api, verifies

pytestmark = [verifies("POL-1", part="{policy}: default deny egress, {client_os} client")]


@each_os("client_os")
@either_policy_api("default_deny_egress")
def test_the_selected_pod_reaches_nobody(pods, policy, expect, client_os):
    (client, bystander), (linux, windows) = pods.clients(client_os), pods.servers("linux")
    goals, back = [linux.tcp(8080), windows.tcp(8080)], client.tcp(8080)
    before = "no policy is in force yet"
    expect.controls([(client, goals[0]), (client, goals[1]), (bystander, back)], because=before)
    policy.apply(client=client)
    because = "a policy without rules selects this client, and no other"
    expect.matrix(open=[(bystander, [*goals, back])], closed=[(client, goals)], because=because)
