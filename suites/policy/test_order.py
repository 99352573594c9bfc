"""Of two Calico policies that speak of the same traffic the one with the lower order decides."""

from conformance.marks import each_os, manifest, needs, verifies

pytestmark = [needs(calico_policy=True)]


@each_os("server_os")
@verifies("POL-1", part="calico: allow before deny, {server_os} server")
@manifest("policy/calico/allow_before_deny.yaml")
def test_an_allow_of_lower_order_wins(pods, policy, expect, server_os):
    (server, bystander), (friend, stranger) = pods.servers(server_os), pods.clients(server_os)
    expect.control([friend, stranger], [server.tcp(8080), bystander.tcp(8080)], because="no policy is in force yet")
    policy.apply(server=server, friend=friend)
    because = "order 10 allows the friend, order 20 denies everybody"
    opened = [(friend, server.tcp(8080)), (stranger, bystander.tcp(8080))]
    expect.matrix(open=opened, closed=[(stranger, server.tcp(8080))], because=because)


@each_os("server_os")
@verifies("POL-1", part="calico: deny before allow, {server_os} server")
@manifest("policy/calico/deny_before_allow.yaml")
def test_a_deny_of_lower_order_wins(pods, policy, expect, server_os):
    (server, bystander), (foe, other) = pods.servers(server_os), pods.clients(server_os)
    expect.control([foe, other], [server.tcp(8080), bystander.tcp(8080)], because="no policy is in force yet")
    policy.apply(server=server, friend=foe)
    because = "order 10 denies this client, order 20 allows everybody"
    opened = [(other, server.tcp(8080)), (foe, bystander.tcp(8080))]
    expect.matrix(open=opened, closed=[(foe, server.tcp(8080))], because=because)
