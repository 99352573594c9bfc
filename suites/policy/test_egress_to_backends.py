"""An egress rule that selects pods opens the way to them, by their addresses and by a Service in front of them."""

from conformance.marks import each_os, either_policy_api, verifies

pytestmark = [verifies("POL-1", part="{policy}: egress to a Service's backends, {client_os} client")]


@each_os("client_os")
@either_policy_api("egress_to_backends")
def test_only_the_selected_backends_are_reached(pods, services, policy, expect, client_os):
    (client, bystander), (server, other) = pods.clients(client_os), pods.servers("linux")
    near = [server.tcp(8080), services.cluster_ip(server).by_address]
    far = [other.tcp(8080), services.cluster_ip(other).by_address]
    expect.control([client, bystander], [*near, *far], because="no policy is in force yet")
    policy.apply(client=client, server=server)
    because = "the one rule selects this backend, and policies see backends behind a Service's address"
    expect.matrix(open=[(client, near), (bystander, far)], closed=[(client, far)], because=because)
