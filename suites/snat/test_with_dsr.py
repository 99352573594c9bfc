"""With direct server return a Windows pod keeps its address by ClusterIP, and policies know it."""

from conformance.marks import manifest, places, verifies

pytestmark = [manifest("policy/services/only-the-client.yaml")]


@places()
@verifies("SVC-2", part="windows pod, server on {place}")
def test_a_policy_knows_the_client_by_cluster_ip(pods, services, policy, windows_nodes, source, *, place):
    client, stranger, server = pods.around(windows_nodes.with_dsr(), place)
    through = source(client, stranger, services.cluster_ip(server))
    through.is_kept(because="with direct server return kube-proxy leaves the source of its node's pods alone")
    policy.apply(client_app=pods.name_of(client), server_app=pods.name_of(server))
    through.admits_everywhere(because="the policy names the client, which comes with its own address either way")
