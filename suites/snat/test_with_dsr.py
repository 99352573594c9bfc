"""With direct server return a Windows pod keeps its address by ClusterIP, and policies know it."""

from conformance.marks import manifest, places, verifies

pytestmark = [manifest("policy/services/only-the-client.yaml")]


@places()
@verifies("SVC-2", part="windows pod, server on {place}")
def test_a_policy_knows_the_client_by_cluster_ip(pods, policy, windows_nodes, source, *, place):
    pairs = pods.around(windows_nodes.with_dsr(), place)
    through = source(pairs)
    through.is_kept(because="with direct server return kube-proxy leaves the source of its node's pods alone")
    policy.apply(client=pairs.clients, server=pairs.servers)
    through.admits_everywhere(because="the policy names the client, which comes with its own address either way")
