"""A GlobalNetworkPolicy concerns what its selectors name, in whatever namespace, and nothing else."""

from conformance.marks import each_os, manifest, needs, verifies

pytestmark = [needs(calico_policy=True), manifest("policy/calico/global_deny.yaml")]


@each_os("server_os")
@verifies("POL-1", part="calico: global policy, {server_os} server")
def test_only_the_selected_namespace_is_closed(pods, policy, expect, server_os):
    server, namesake = pods.of(f"{server_os}-client", f"elsewhere/{server_os}-client")
    clients = pods.servers("linux")
    expect.control(clients, server.tcp(8080), because="no policy is in force yet")
    policy.apply(server=server)
    because = "the policy selects this label in this namespace; its namesake is in another"
    expect.matrix(open=[(clients, namesake.tcp(8080))], closed=[(clients, server.tcp(8080))], because=because)
