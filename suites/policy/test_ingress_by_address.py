"""An ingress rule with an address block admits that block, and nobody else."""

from conformance.marks import each_os, either_policy_api, verifies

pytestmark = [verifies("POL-1", part="{policy}: ingress by address, {server_os} server")]


@each_os("server_os")
@either_policy_api("ingress_by_address")
def test_only_the_allowed_address_enters(pods, policy, expect, server_os):
    (server, bystander), (friend, stranger) = pods.servers(server_os), pods.clients(server_os)
    expect.control([friend, stranger], [server.tcp(8080), bystander.tcp(8080)], because="no policy is in force yet")
    policy.apply(server=server, friend=friend)
    because = "the one rule allows the address of the friend, and pods keep their addresses"
    opened = [(friend, server.tcp(8080)), (stranger, bystander.tcp(8080))]
    expect.matrix(open=opened, closed=[(stranger, server.tcp(8080))], because=because)
