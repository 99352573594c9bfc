"""A GlobalNetworkPolicy concerns what its selectors name, in whatever namespace, and nothing else."""

from conformance.marks import each_os, manifest, needs, verifies

pytestmark = [needs(calico_policy=True), manifest("policy/calico/global_deny.yaml")]


@each_os("server_os")
@verifies("POL-1", part="calico: global policy, {server_os} server")
def test_only_the_selected_namespace_is_closed(pods, policy, expect, server_os):
    (server, namesake), clients = pods.of(f"{server_os}-client", f"elsewhere/{server_os}-client"), pods.servers("linux")
    expect.control(clients, server.tcp(8080), because="no policy is in force yet")
    expect.control([*clients, server], namesake.tcp(8080), because="no policy is in force yet")
    policy.apply(server=server)
    because = "the policy selects this label in this namespace; its namesake is in another"
    opened, closed = [([*clients, server], namesake.tcp(8080))], [(clients, server.tcp(8080))]
    expect.matrix(open=opened, closed=closed, because=because)
