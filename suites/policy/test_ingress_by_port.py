"""An ingress rule with a port opens that port to everybody, and no other port."""

from conformance.marks import each_os, either_policy_api, verifies

pytestmark = [verifies("POL-1", part="{policy}: ingress by port, {server_os} server")]


@each_os("server_os")
@either_policy_api("ingress_by_port")
def test_only_the_allowed_port_is_open(pods, policy, expect, server_os):
    clients, server = pods.clients("linux"), pods.server(server_os)
    expect.control(clients, [server.tcp(80), server.tcp(8080)], because="no policy is in force yet")
    policy.apply(server=server)
    opened, closed = [(clients, server.tcp(8080))], [(clients, server.tcp(80))]
    expect.matrix(open=opened, closed=closed, because="the one rule allows TCP 8080 from anywhere")
